"""The command line, on a small course of real files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fake_course import CHECKS, REPAIRED, repair, write_exercise
from grader import cli, notes

PACKAGE = Path(cli.__file__).parent


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course of two exercises and return its root."""
    write_exercise(tmp_path, "add_up", 10)
    write_exercise(tmp_path, "sum_up", 20)
    return tmp_path


def folder(course: Path, slug: str) -> Path:
    """Return the student's folder of an exercise."""
    return course / "exercises" / "ch1_numbers" / slug


def python_m_grader(course: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a student does, in the course's folder."""
    if not (course / "grader").exists():
        (course / "grader").symlink_to(PACKAGE)
    env = {**os.environ, **environment}
    command = [sys.executable, "-m", "grader", *arguments]
    return subprocess.run(command, cwd=course, env=env, capture_output=True, timeout=110, encoding="utf-8", check=False)


def note_run(course: Path, slug: str, outcome: str, first: str = "") -> None:
    """Leave the note of a run."""
    notes.append(folder(course, slug), "run", outcome=outcome, first_failure=first, seed=0, passed=1)


# --- the words of the command line ------------------------------------------------------------------------------------


def test_without_a_verb_the_verbs_are_listed(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([], course) == 0
    said = capsys.readouterr().out
    assert all(f"  {verb} " in said for verb in cli.VERBS)


def test_an_unknown_verb_is_a_usage_error_with_the_nearest(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["chekc"], course) == 2
    assert "`chekc` is not a verb. Did you mean `check`?" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["check", "hint", "run"])
def test_an_unknown_exercise_is_a_usage_error(course: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([verb, "ad_up"], course) == 2
    assert "There is no exercise `ad_up`. Did you mean `add_up`?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["check", "--seed", "x"], ["check", "--jobs", "0"], ["hint"], ["list", "--al"]])
def test_a_wrong_option_is_a_usage_error(course: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        cli.main(arguments, course)


def test_a_broken_exercise_ends_with_its_line(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder(course, "sum_up") / "exercise.toml").write_text("points = 1\n", encoding="utf-8")
    assert cli.main(["list"], course) == 3
    assert capsys.readouterr().err == "exercises/ch1_numbers/sum_up/exercise.toml:1: `title` is missing.\n"


def test_a_course_without_exercises_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check"], tmp_path) == 3
    assert "there is no exercise here" in capsys.readouterr().err


def test_files_beside_the_checkout_never_stand_in_for_pythons_own(course: Path) -> None:
    """A student may call a file random.py or argparse.py."""
    for name in ("random.py", "argparse.py", "json.py", "tomllib.py", "typing.py", "re.py"):
        (course / name).write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    done = python_m_grader(course, "list")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipe_gets_utf8_whatever_the_locale(course: Path) -> None:
    done = python_m_grader(course, "list", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert "· 0 of 2 repaired" in done.stdout


def test_an_encoding_that_was_asked_for_is_kept(course: Path) -> None:
    done = python_m_grader(course, "list", PYTHONIOENCODING="ascii")
    assert "- 0 of 2 repaired" in done.stdout


# --- list -------------------------------------------------------------------------------------------------------------


def test_list_shows_what_is_repaired_and_what_is_next(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_run(course, "add_up", "failed", "check_zero_changes_nothing")
    note_run(course, "add_up", "passed")
    assert cli.main(["list"], course) == 0
    assert capsys.readouterr().out.split("\n") == [
        "ch1 numbers · 1 of 2 repaired",
        "  ✓ add_up   Add up",
        "  · sum_up   Sum up   <- next",
        "",
        "  next: nox -s check -- sum_up",
        "",
    ]


def test_list_mentions_broken_notes_and_missing_files(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder(course, "add_up") / notes.NAME).write_text("?\n", encoding="utf-8")
    (folder(course, "sum_up") / "sum_up.py").unlink()
    assert cli.main(["list"], course) == 0
    said = capsys.readouterr().out
    assert "Line 1 of add_up/notes.jsonl is no note and was skipped." in said
    assert "! sum_up" in said
    assert "sum_up.py is missing" in said


def test_list_imports_nothing_that_takes_long(course: Path) -> None:
    """It answers at once."""
    (course / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "heavy = {'torch', 'numpy', 'pytest', 'rich', 'multiprocessing', 'asyncio'}\n"
        "atexit.register(lambda: print('heavy:', sorted(heavy & set(sys.modules))))\n",
        encoding="utf-8",
    )
    assert python_m_grader(course, "list", PYTHONPATH=str(course)).stdout.endswith("heavy: []\n")


# --- hint -------------------------------------------------------------------------------------------------------------


def hint(course: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of the next hint."""
    assert cli.main(["hint", "add_up"], course) == 0
    return capsys.readouterr().out.splitlines()


def test_hints_grow_stronger_and_end(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report shows the first; the exercise's own is the last."""
    note_run(course, "add_up", "failed", "check_two_numbers_are_added")
    assert hint(course, capsys) == [
        "  The sum of two numbers is returned.",
        "  hint 2 of 3: Look at the operator.",
        "  again: nox -s check -- add_up",
    ]
    assert hint(course, capsys)[1] == "  hint 3 of 3: The operator between a and b decides."
    last = "  There are no more hints for this check. The last was: The operator between a and b decides."
    assert hint(course, capsys)[1] == last
    assert [e["number"] for e in notes.read(folder(course, "add_up"))[0] if e["kind"] == "hint"] == [2, 3]


def test_hints_belong_to_the_check_that_fails_now(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_run(course, "add_up", "failed", "check_two_numbers_are_added")
    hint(course, capsys)
    note_run(course, "add_up", "failed", "check_zero_changes_nothing")
    assert hint(course, capsys)[1] == "  hint 2 of 2: The operator between a and b decides."


def test_no_hint_comes_before_the_first_run_or_after_the_last(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint(course, capsys)[0] == "  Hints follow the check that fails, so check once first."
    note_run(course, "add_up", "passed")
    assert "passed when it was last checked" in hint(course, capsys)[0]
    note_run(course, "add_up", "failed", "check_of_an_older_version")
    assert "Check again" in hint(course, capsys)[0]


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_shows_the_example_as_it_is(course: Path) -> None:
    done = python_m_grader(course, "run", "add_up")
    assert (done.returncode, done.stdout, done.stderr) == (0, "add(1, 2) is -1 and not 3\n", "")
    assert not (folder(course, "add_up") / "__pycache__").exists()


def test_run_passes_the_exit_code_on(course: Path) -> None:
    path = folder(course, "add_up") / "add_up.py"
    path.write_text("raise SystemExit(7)\n", encoding="utf-8")
    assert python_m_grader(course, "run", "add_up").returncode == 7
    path.write_text("def (:\n", encoding="utf-8")
    assert "SyntaxError" in python_m_grader(course, "run", "add_up").stderr


RANKS = """
import torch
import torch.distributed as dist

def main():
    dist.init_process_group("gloo")
    total = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(total)
    print(f"rank {dist.get_rank()} has {total.item()}\\n", end="", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    main()
"""


def test_run_starts_two_ranks_where_the_example_joins_a_group(course: Path) -> None:
    (folder(course, "add_up") / "add_up.py").write_text(RANKS, encoding="utf-8")
    done = python_m_grader(course, "run", "add_up")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 has 3.0", "rank 1 has 3.0"]


# --- check ------------------------------------------------------------------------------------------------------------


def check(course: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and what is shown."""
    code = cli.main(["check", *arguments], course)
    return code, capsys.readouterr().out


def test_check_stops_at_the_first_exercise_that_is_not_repaired(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = check(course, capsys)
    assert code == 1
    assert said.startswith("✗ add_up   check 2 of 3   ")
    assert "ch1 · 0 of 2 repaired\n  The sum of two numbers is returned.\n  add(1, 2)" in said
    assert "hint 1 of 3: Which sign does the second number have?" in said
    assert "sum_up" not in said
    (event,) = notes.read(folder(course, "add_up"))[0]
    assert (event["outcome"], event["first_failure"], event["passed"]) == ("failed", "check_two_numbers_are_added", 1)


def test_check_goes_on_when_the_first_is_repaired(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repair(folder(course, "add_up"))
    code, said = check(course, capsys)
    assert code == 1
    assert said.startswith("✓ add_up   3 checks   ")
    assert "✗ sum_up   check 2 of 3" in said
    assert "ch1 · 1 of 2 repaired" in said
    repair(folder(course, "sum_up"))
    code, said = check(course, capsys)
    assert (code, "All 2 exercises are repaired." in said) == (0, True)


def test_a_named_exercise_is_checked_alone_and_the_next_is_named(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repair(folder(course, "sum_up"))
    code, said = check(course, capsys, "sum_up")
    assert code == 0
    assert said.startswith("✓ sum_up")
    assert "next: nox -s check -- add_up" in said


def report_of(course: Path, *arguments: str) -> dict[str, object]:
    """Return the JSON report of a run, without times."""
    cli.main(["check", "--json", str(course / "r.json"), *arguments], course)
    report: dict[str, object] = json.loads((course / "r.json").read_text(encoding="utf-8"))
    exercises = report["exercises"]
    assert isinstance(exercises, list)
    for item in [*exercises, *(each for exercise in exercises for each in exercise["checks"])]:
        del item["seconds"]
    return report


def test_all_are_checked_in_order_and_reports_written(course: Path) -> None:
    repair(folder(course, "sum_up"))
    report = report_of(course, "--all", "--seed", "5", "--junit", str(course / "j.xml"))
    assert (report["seed"], report["points"], report["max_points"]) == (5, 2, 4)
    assert isinstance(report["exercises"], list)
    assert [exercise["outcome"] for exercise in report["exercises"]] == ["failed", "passed"]
    assert (course / "j.xml").read_text(encoding="utf-8").count("<testcase") == 6


def test_several_at_a_time_give_the_same_report(course: Path) -> None:
    """Each exercise's seed comes from its name, not from its turn."""
    repair(folder(course, "sum_up"))
    assert report_of(course, "--all", "--jobs", "2") == report_of(course, "--all")


def test_a_broken_check_is_the_exercises_fault(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, and no note: that was no verdict."""
    checks = course / "reference" / "ch1_numbers" / "add_up" / "checks.py"
    checks.write_text(CHECKS.replace("student.call", "student.kall"), encoding="utf-8")
    code, said = check(course, capsys, "add_up")
    assert code == 3
    assert "! add_up   check 1 of 3 could not be judged" in said
    assert not (folder(course, "add_up") / notes.NAME).exists()


def test_a_missing_file_is_a_failure_with_the_way_out(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder(course, "add_up") / "add_up.py"
    path.rename(path.with_name("Add_Up.py"))
    code, said = check(course, capsys, "add_up")
    assert code == 1
    assert "no check could run" in said
    assert "found Add_Up.py. Rename it to add_up.py." in " ".join(said.split())


def test_a_file_that_hides_a_module_is_mentioned(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repair(folder(course, "add_up"))
    (folder(course, "add_up") / "random.py").touch()
    code, said = check(course, capsys, "add_up")
    assert (code, "warning: random.py beside the exercise hides the module `random`" in said) == (0, True)


def test_a_read_only_checkout_costs_a_sentence(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repair(folder(course, "add_up"))
    (folder(course, "add_up") / notes.NAME).mkdir()  # root may write everywhere, but not here
    assert cli.main(["check", "add_up"], course) == 0
    assert "notes.jsonl was not written" in capsys.readouterr().err


def test_github_obeys_only_our_own_commands(course: Path) -> None:
    printed = 'import sys\nprint("::error::mine")\nprint("::add-mask::a", file=sys.stderr)\n'
    (folder(course, "add_up") / "add_up.py").write_text(printed + REPAIRED.replace("a + b", "a"), encoding="utf-8")
    done = python_m_grader(
        course, "check", "--all", "--github", GITHUB_OUTPUT=str(course / "out"), GITHUB_STEP_SUMMARY=str(course / "sum")
    )
    commands = [line for line in done.stdout.splitlines() if line.strip().startswith("::")]
    assert [command.split("=")[0].split("::")[1][:13] for command in commands] == [
        "stop-commands",
        commands[0].removeprefix("::stop-commands::")[:13],
        "error file",
        "error file",
        "notice title",
        "notice title",
    ]
    assert (course / "out").read_text(encoding="utf-8").startswith("result=")
    assert "| add_up |" in (course / "sum").read_text(encoding="utf-8")


ENDLESS = """
while True:
    pass
"""


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise on Windows")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_run_keeps_what_it_knows(course: Path, jobs: str) -> None:
    """Exit 130 at once, and the report holds every exercise that was graded."""
    repair(folder(course, "add_up"))
    (folder(course, "sum_up") / "sum_up.py").write_text(ENDLESS, encoding="utf-8")
    (course / "grader").symlink_to(PACKAGE)
    command = [sys.executable, "-m", "grader", "check", "--json", "r.json", "--jobs", jobs]
    # A shell that starts the tests in the background has told all below it to ignore Ctrl-C; a handler undoes that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=course, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=30)
    assert first.startswith("✓ add_up")
    assert "Interrupted" in rest
    assert (process.returncode, errors) == (130, "")
    report = json.loads((course / "r.json").read_text(encoding="utf-8"))
    assert [exercise["slug"] for exercise in report["exercises"]] == ["add_up"]


def test_several_processes_end_without_a_word(course: Path) -> None:
    """Whatever they were about when the last result had come."""
    for _ in range(3):
        assert python_m_grader(course, "check", "--all", "--jobs", "2").stderr == ""


def test_doctor_names_what_this_machine_offers(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"], course) == 0
    said = capsys.readouterr().out
    for name in (
        "Python",
        "torch",
        "isolation",
        "Landlock",
        "seccomp",
        "namespaces",
        "start method",
        "cores",
        "memory",
    ):
        assert f"  {name}  " in f"  {said}"

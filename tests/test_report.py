"""What is shown of a result: text, JSON, JUnit and workflow commands."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from grader.errors import UsageError
from grader.records import CheckResult, Exercise, ExerciseResult, Level, Outcome, Promise, Report, Submission
from grader.report import as_json, github, junit
from grader.report.terminal import Screen
from grader.report.text import ASCII, UNICODE, Standing, block, footer, plain, render

ROOT = Path("/course")
HINTS = ("all_reduce adds. What turns a sum over the ranks into a mean?", "Divide.")
NASTY = "\x1b[2J::error::x\n::set-output name=a::b\n##[error]</failure>```\r\x00\ud800"


def exercise(slug: str = "mean_gradients") -> Exercise:
    """Return an exercise of chapter 1 worth 2 points."""
    student = ROOT / "exercises" / "ch1_data_parallel" / slug
    return Exercise(slug, 1, "The sum is not the mean", 20, 1, 2, student, ROOT / "reference" / slug)


def promise(name: str, sentence: str = "It holds.") -> Promise:
    """Return what a check says of itself."""
    return Promise(name, sentence, HINTS)


def failed(message: str, output: str = "", line: int = 0) -> ExerciseResult:
    """Return a result of three checks of which the second failed."""
    mean = promise("check_every_rank_holds_the_mean", "Every rank ends with the mean of all ranks' gradients.")
    checks = (
        CheckResult(promise("check_shape"), Outcome.PASSED, seconds=0.1),
        CheckResult(mean, Outcome.FAILED, message, output, 0.25, line),
        CheckResult(promise("check_dtype"), Outcome.NOT_RUN),
    )
    return ExerciseResult(Submission(exercise(), exercise().starter_path), Outcome.FAILED, checks, seconds=0.4)


def passed() -> ExerciseResult:
    """Return a result of two checks that passed."""
    checks = tuple(CheckResult(promise(name), Outcome.PASSED) for name in ("check_a", "check_b"))
    submission = Submission(exercise("shared_start"), exercise("shared_start").starter_path)
    return ExerciseResult(submission, Outcome.PASSED, checks, seconds=0.72)


def unfit(outcome: Outcome, message: str) -> ExerciseResult:
    """Return a result of no check at all."""
    return ExerciseResult(Submission(exercise(), exercise().starter_path), outcome, message=message)


def report(*results: ExerciseResult) -> Report:
    """Return the report of a run with seed 7 at B1."""
    return Report(7, Level.B1, results)


WRONG = """rank 0: gradient[0] is 4.0, expected 2.0 (2 of 2 differ, largest difference 4.0; shape [2], float32)
        that is the sum over the 2 ranks"""


def test_a_failure_reads_as_the_design_shows_it() -> None:
    """Fact, promise, message, hint, command."""
    assert render(failed(WRONG), Standing(1, 10)) == (
        "✗ mean_gradients   check 2 of 3                                       ch1 · 1 of 10 repaired\n"
        "  Every rank ends with the mean of all ranks' gradients.\n"
        "  rank 0: gradient[0] is 4.0, expected 2.0 (2 of 2 differ, largest difference 4.0; shape [2],\n"
        "  float32)\n"
        "          that is the sum over the 2 ranks\n"
        "  hint 1 of 3: all_reduce adds. What turns a sum over the ranks into a mean?\n"
        "  again: nox -s check -- mean_gradients        next hint: nox -s hint -- mean_gradients"
    )


def test_a_repaired_exercise_takes_a_line_and_says_what_is_next() -> None:
    assert render(passed()) == "✓ shared_start   2 checks   0.7 s"
    changed = replace(passed(), changed_lines=1, reference_changed_lines=2)
    assert render(changed, Standing(2, 10), next_slug="epoch_shuffle").split("\n")[1:] == [
        "  you changed 1 line; the reference changes 2",
        "  next: nox -s check -- epoch_shuffle",
    ]


def test_a_fault_of_ours_is_never_the_students() -> None:
    words = render(unfit(Outcome.ERROR, "checks.py:3: is not Python."))
    assert words.startswith(
        "! mean_gradients   could not be graded\n  This is a fault of the exercise or of the grader"
    )
    check = CheckResult(promise("check_a"), Outcome.ERROR, "KeyError: 'x'")
    words = render(replace(failed(""), outcome=Outcome.ERROR, checks=(check,)))
    assert words.startswith("! mean_gradients   check 1 of 1 could not be judged\n")
    assert "hint" not in words


def test_a_missing_file_and_a_missing_repair_say_the_way_out() -> None:
    words = render(unfit(Outcome.FAILED, "The file mean_gradients.py is missing."))
    assert words.split("\n") == [
        "✗ mean_gradients   no check could run",
        "  The file mean_gradients.py is missing.",
        "  again: nox -s check -- mean_gradients",
    ]
    words = render(unfit(Outcome.NOT_RUN, "Repair shared_start first.\nnox -s check -- shared_start"))
    assert words.split("\n") == [
        "· mean_gradients   not run",
        "  Repair shared_start first.",
        "  nox -s check -- shared_start",
    ]


def test_only_the_end_of_what_was_printed_is_shown_behind_a_gutter() -> None:
    lines = render(failed("No.", "".join(f"step {n}\n" for n in range(100)))).split("\n")
    begin = lines.index("  printed:")
    assert lines[begin + 1 : begin + 3] == ["  | [the end of 100 lines, 789 characters]", "  | step 80"]
    assert lines[begin + 21] == "  | step 99"


def test_nothing_that_a_submission_wrote_is_obeyed() -> None:
    """Neither in its message nor in its output."""
    for line in render(failed(NASTY, NASTY)).split("\n"):
        assert not line.strip().startswith("::")
        assert not {"\x1b", "\r", "\x00", "\ud800"} & set(line)
        assert "##[" not in line


def test_wrapping_makes_no_command_either() -> None:
    words = render(failed("word " * 19 + "::error::x")).split("\n")
    assert "  : :error::x" in words


def test_a_message_is_bounded() -> None:
    assert len(render(failed("word " * 100_000, "z" * 10**6))) < 8000


def test_a_command_is_never_wrapped() -> None:
    narrow = render(failed(WRONG), look=replace(UNICODE, width=40)).split("\n")
    assert "  again: nox -s check -- mean_gradients" in narrow
    assert "  next hint: nox -s hint -- mean_gradients" in narrow
    assert max(map(len, narrow[1:-2])) <= 40


def test_warnings_follow_the_result() -> None:
    words = render(replace(passed(), warnings=("random.py hides a module.",)))
    assert words.split("\n")[1] == "  warning: random.py hides a module."


def test_the_footer_names_isolation_and_seed() -> None:
    assert plain(footer(report(passed()), UNICODE)) == "  isolation B1 · seed 7"
    both = plain(footer(report(passed(), failed(WRONG)), ASCII))
    assert both == "  1 of 2 repaired - 2 of 4 points - isolation B1 - seed 7"


class Terminal(io.TextIOWrapper):
    """A stream that a person watches."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def shown_on(encoding: str) -> str:
    """Return what a terminal with this encoding receives for a failure."""
    raw = io.BytesIO()
    stream = Terminal(raw, encoding=encoding, errors="backslashreplace", newline="")
    screen = Screen(stream, stream)
    screen.tell("check 1 of 3, 2 ranks")
    screen.show(block(failed(WRONG), Standing(1, 10), screen.look))
    return raw.getvalue().decode(encoding)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the environment say that the terminal can do everything."""
    for name in ("NO_COLOR", "COLUMNS", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


def test_colour_is_for_terminals_that_want_it(terminal: pytest.MonkeyPatch) -> None:
    assert "\x1b[1;31m✗" in shown_on("utf-8")
    terminal.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown_on("utf-8")


@pytest.mark.usefixtures("terminal")
def test_signs_are_ascii_where_others_cannot_be_shown() -> None:
    assert "x mean_gradients" in shown_on("ascii").replace("\x1b[1;31m", "").replace("\x1b[0m", "").replace(
        "\x1b[1m", ""
    )


def test_a_dumb_terminal_gets_plain_ascii(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("TERM", "dumb")
    assert "\rx mean_gradients   check 2 of 3" in shown_on("utf-8")


def test_the_passing_line_leaves_nothing_behind(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("NO_COLOR", "1")
    told, blank, rest = shown_on("utf-8").removeprefix("\r\r").split("\r")
    assert told == "check 1 of 3, 2 ranks"
    assert blank == " " * len(told)
    assert rest.startswith("✗ mean_gradients")


def test_nothing_passes_by_where_nobody_watches() -> None:
    stream = io.StringIO()
    Screen(stream, stream).tell("check 1 of 3")
    assert stream.getvalue() == ""


def test_the_json_is_what_other_programs_rely_on(tmp_path: Path) -> None:
    """Schema ranklings/report/1, key by key."""
    as_json.write(report(passed(), failed(WRONG)), tmp_path / "report.json")
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    second = found["exercises"].pop()
    assert [item["outcome"] for item in found.pop("exercises")] == ["passed"]
    assert found == {"schema": "ranklings/report/1", "seed": 7, "isolation": "B1", "points": 2, "max_points": 4}
    check = second.pop("checks")[1]
    assert second == {
        "slug": "mean_gradients",
        "chapter": 1,
        "title": "The sum is not the mean",
        "outcome": "failed",
        "points": 0,
        "max_points": 2,
        "seconds": 0.4,
        "first_failure": "check_every_rank_holds_the_mean",
        "message": "",
    }
    assert check == {
        "name": "check_every_rank_holds_the_mean",
        "promise": "Every rank ends with the mean of all ranks' gradients.",
        "outcome": "failed",
        "judged_by": "value",
        "message": WRONG,
        "hint": HINTS[0],
        "seconds": 0.25,
    }
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be written: .* Choose a file in a folder of yours\."):
        as_json.write(report(), tmp_path / "nowhere" / "report.json")


def test_junit_has_a_suite_for_each_exercise_and_a_case_for_each_check(tmp_path: Path) -> None:
    junit.write(report(passed(), failed(NASTY, NASTY), unfit(Outcome.ERROR, NASTY)), tmp_path / "junit.xml")
    suites = ET.parse(tmp_path / "junit.xml").getroot()
    counts = [(s.get("tests"), s.get("failures"), s.get("errors"), s.get("skipped")) for s in (suites, *suites)]
    assert counts == [("6", "1", "1", "1"), ("2", "0", "0", "0"), ("3", "1", "0", "1"), ("1", "0", "1", "0")]
    failure = suites.find(".//testcase[@name='check_every_rank_holds_the_mean']/failure")
    assert failure is not None
    assert failure.text is not None
    assert "</failure>" in failure.text


@pytest.mark.parametrize("workspace", ["/course", "/"])
def test_an_annotation_points_at_the_students_line(monkeypatch: pytest.MonkeyPatch, workspace: str) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", workspace)
    error, *notices = github.commands(report(passed(), failed("100% wrong\n::x", line=12)), ROOT)
    path = (exercise().starter_path).relative_to(workspace).as_posix()
    assert error == (
        f"::error file={path},line=12,title=mean_gradients::"
        "Every rank ends with the mean of all ranks' gradients.%0A100%25 wrong%0A: :x"
        "%0Ahint: all_reduce adds. What turns a sum over the ranks into a mean?"
    )
    assert notices == [
        "::notice title=Autograding complete::Points 2/4",
        '::notice title=Autograding report::{"totalPoints":2,"maxPoints":4}',
    ]


def test_the_runners_files_get_a_table_and_the_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What classroom-resources/autograding-grading-reporter reads, and a summary that no text of a student leaves."""
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    github.write_files(report(passed(), failed(NASTY, line=3)))
    line, begin, *hint, end = (tmp_path / "output").read_text(encoding="utf-8").splitlines()
    result = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert (result["version"], result["status"], result["max_score"]) == (1, "fail", 4)
    assert [(t["name"], t["status"], t["score"], t["line_no"]) for t in result["tests"]] == [
        ("shared_start", "pass", 2, 0),
        ("mean_gradients", "fail", 0, 3),
    ]
    summary = (tmp_path / "summary").read_text(encoding="utf-8")
    assert "| mean_gradients | failed | 0 of 2 | `check_every_rank_holds_the_mean` |" in summary
    assert summary.count("````") == 2
    assert begin == f"hint<<{end}"
    assert hint[0].startswith("✗ mean_gradients   check 2 of 3")
    assert any(line.startswith("  hint 1 of 3: all_reduce adds.") for line in hint)


def test_the_result_fits_into_an_environment_variable_whatever_was_printed() -> None:
    long = report(*[failed("猫" * 5000)] * 200)
    assert len(github.encoded(long)) < 128 << 10
    assert json.loads(base64.b64decode(github.encoded(report())))["status"] == "error"

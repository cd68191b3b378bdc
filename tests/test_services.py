"""Results as the places take them that a grade goes to, and the programs that are run there."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from fake_course import REPAIRED, STARTER, write_exercise
from grader import cli
from grader.records import CheckResult, Exercise, ExerciseResult, Level, Outcome, Promise, Report, Submission
from grader.report import classroom50, github, gradescope
from released import install, python_in, release, without_installing
from services import collected, outputs_of, reported, shown_by_gradescope

CHECKOUT = Path(__file__).resolve().parents[1]
WORKFLOW = Path(".github/workflows/ranklings.yml")
IDENTITY = {
    "CLASSROOM": "systems",
    "ASSIGNMENT": "ranklings",
    "ASSIGNMENT_TYPE": "team",
    "OWNER": "group-7",
    "SUBMISSION_TAG": "submit/2026-12-01T14-32-05Z-a1b2c3d",
    "COMMIT_URL": "https://example.org/commit/a1b2c3d",
    "RELEASE_URL": "https://example.org/releases/a1b2c3d",
    "REVIEW_URL": "",
}
HANGS = STARTER.replace("return a - b", "while True: pass")
CRASHES = STARTER.replace("return a - b", "import os; os._exit(0)")
PRINTS = STARTER.replace("return a - b", 'print("::error::mine\\n##[error]mine"); return a - b')

# --- rules, for every way in which a run may end ----------------------------------------------------------------------


def result(slug: str, outcome: Outcome, message: str = "", line: int = 0) -> ExerciseResult:
    """Return the result of an exercise with two checks, the second of which decides."""
    folder = Path("exercises", "ch1_numbers", slug)
    exercise = Exercise(slug, 1, slug.capitalize(), 10, 1, 3, folder, folder)
    promises = [Promise(f"check_{name}", f"It is {name}.", (f"Is it {name}?",)) for name in ("small", "right")]
    ran = outcome is not Outcome.NOT_RUN
    checks = (CheckResult(promises[0], Outcome.PASSED), CheckResult(promises[1], outcome, message, line=line))
    submission = Submission(exercise, folder / f"{slug}.py")
    return ExerciseResult(submission, outcome, checks if ran else (), "" if ran else message, seconds=1.25)


PASSED = result("one", Outcome.PASSED)
FAILED = result("two", Outcome.FAILED, "It is wrong.\n::error::mine", line=3)
TIMEOUT = result("three", Outcome.FAILED, "It did not answer within 10 s.")
CRASH = result("four", Outcome.FAILED, "The rank's process ended by itself.")
OURS = result("five", Outcome.ERROR, "KeyError: 'x'")
NOT_RUN = result("six", Outcome.NOT_RUN, "Not checked.")
ENDINGS = {
    "all passed": ([PASSED, PASSED], "success", 6, 6),
    "some failed": ([PASSED, FAILED], "Some tests failed.", 3, 6),
    "nothing passed": ([FAILED, FAILED], "Some tests failed.", 0, 6),
    "timeout": ([PASSED, TIMEOUT], "Some tests failed.", 3, 6),
    "timeout of the whole run": ([PASSED, NOT_RUN, NOT_RUN], "Some tests failed.", 3, 9),
    "crash": ([CRASH, PASSED], "Some tests failed.", 3, 6),
    "a fault of ours": ([PASSED, OURS], "Some tests errored.", 3, 6),
    "empty": ([], "Some tests errored.", 0, 0),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_service_accepts_every_ending(ending: str) -> None:
    """The grading reporter, Classroom 50 and Gradescope; all three record the same points."""
    results, conclusion, points, most = ENDINGS[ending]
    report = Report(7, Level.B1, tuple(results))
    said, notices = reported(github.encoded(report))
    assert said == conclusion
    assert (
        notices == [command for command in github.commands(report, CHECKOUT) if "::notice" in command][: len(notices)]
    )
    assert collected(classroom50.to_json(report, IDENTITY), IDENTITY) == (points, most)
    assert shown_by_gradescope(gradescope.to_json(report)) == points


def test_message_and_hint_reach_the_student() -> None:
    """In Gradescope's output of the test, Classroom 50's extra fields, an annotation at the student's own line."""
    report = Report(7, Level.B1, (FAILED,))
    (shown,) = gradescope.to_json(report, "after_published")["tests"]
    assert "hint 1 of 2: Is it right?" in shown["output"]
    assert "It is wrong." in shown["output"]
    (kept,) = classroom50.to_json(report, IDENTITY)["tests"]
    assert (kept["first-failure"], kept["hint"]) == ("check_right", "Is it right?")
    annotation = github.commands(report, CHECKOUT)[0]
    assert annotation.startswith("::error file=two.py,line=3,title=two::It is right.%0AIt is wrong.%0A: :error::mine")
    assert annotation.endswith("%0Ahint: Is it right?")


def test_gradescope_shows_results_when_the_instructor_says() -> None:
    report = Report(7, Level.B1, (PASSED,))
    assert gradescope.to_json(report, "after_due_date")["visibility"] == "after_due_date"


# --- the programs that run there --------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course of five exercises; one that hangs costs a second."""
    root = tmp_path / "instructor"
    for place, slug in enumerate(("good", "bad", "hanging", "crashing", "missing"), 1):
        write_exercise(root, slug, 10 * place, more="[limits]\ntimeout_s = 1.0\n" if slug == "hanging" else "")
    return root


def hand_in(copy: Path) -> None:
    """Do to the starters what students do."""
    folder = copy / "exercises" / "ch1_numbers"
    for slug, source in {"good": REPAIRED, "bad": PRINTS, "hanging": HANGS, "crashing": CRASHES}.items():
        (folder / slug / f"{slug}.py").write_text(source, encoding="utf-8")
    (folder / "missing" / "missing.py").rename(folder / "missing" / "renamed.py")


def steps(copy: Path) -> list[dict[str, Any]]:
    """Return the steps of the students' workflow."""
    found: list[dict[str, Any]] = YAML(typ="safe").load(copy / WORKFLOW)["jobs"]["check"]["steps"]
    return found


def test_the_workflow_is_what_actions_understands(course: Path, tmp_path: Path) -> None:
    """By the public schema that check-jsonschema ships, ours and the students'."""
    copy = release(course, tmp_path / "copy")
    files = [str(copy / WORKFLOW), *map(str, (CHECKOUT / ".github" / "workflows").glob("*.yml"))]
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *files]
    said = python_in(tmp_path, *command)
    assert said.returncode == 0, said.stdout


def test_the_workflow_may_do_little_and_runs_what_is_pinned(course: Path, tmp_path: Path) -> None:
    """It reads the repository, keeps no token, names actions by hashes of commits, pastes no output into a script."""
    copy = release(course, tmp_path / "copy")
    whole = YAML(typ="safe").load(copy / WORKFLOW)
    assert whole["permissions"] == {"contents": "read"}
    assert steps(copy)[0]["with"] == {"persist-credentials": False}
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", step["uses"]) for step in steps(copy) if "uses" in step)
    assert not any("${{" in step.get("run", "") for step in steps(copy))


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow runs on Linux")
def test_the_steps_of_the_workflow_grade_a_push(course: Path, tmp_path: Path) -> None:
    """Run one after the other as the runner does; only pip is told to install nothing."""
    copy = release(course, tmp_path / "copy")
    hand_in(copy)
    install(copy)
    environment = {**os.environ, **without_installing(tmp_path / "bin"), "GITHUB_WORKSPACE": str(copy)}
    environment |= {f"GITHUB_{name}": str(tmp_path / name) for name in ("OUTPUT", "STEP_SUMMARY")}
    said, codes = {}, {}
    for step in (step for step in steps(copy) if "run" in step):
        hint = outputs_of((tmp_path / "OUTPUT").read_text(encoding="utf-8"))["hint"] if "env" in step else ""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=copy, env={**environment, "HINT": hint}, capture_output=True, encoding="utf-8", check=False
        )
        said[step["name"]], codes[step["name"]] = done.stdout + done.stderr, done.returncode
    assert codes == {"environment": 0, "check": 1, "what to repair next": 0}
    conclusion, notices = reported(outputs_of((tmp_path / "OUTPUT").read_text(encoding="utf-8"))["result"])
    assert conclusion == "Some tests failed."
    lines = said["check"].splitlines()
    assert lines[-2:] == notices
    assert notices[0].endswith("Points 2/10")
    place = "file=exercises/ch1_numbers/bad/bad.py"
    assert any(line.startswith(f"::error {place},title=bad::") for line in lines)
    commands = [line for line in lines if re.search(r"^\s*::|##\[", line)]
    assert len(commands) == 2 + 4 + 2, "only our own: stop-commands and its end, an annotation each, two notices"
    assert said["what to repair next"].startswith("✗ bad   check 2 of 3")
    assert "hint 1 of 3: Which sign does the second number have?" in said["what to repair next"]
    summary = (tmp_path / "STEP_SUMMARY").read_text(encoding="utf-8")
    assert summary.startswith("### Ranklings: 2 of 10 points\n\n| exercise | outcome |")
    assert "| good | passed | 2 of 2 |  |" in summary


@pytest.mark.skipif(sys.platform == "win32", reason="the workflow runs on Linux")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_has_a_result(course: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Each exercise counts towards the total, whether or not the time sufficed for it."""
    copy = release(course, tmp_path / "copy")
    hand_in(copy)
    folder, output = copy / "exercises" / "ch1_numbers" / "hanging", tmp_path / "output"
    longer = (folder / "exercise.toml").read_text(encoding="utf-8").replace("= 1.0", "= 60.0")
    (folder / "exercise.toml").write_text(longer, encoding="utf-8")
    environment = {**os.environ, "GITHUB_OUTPUT": str(output), "PYTHONUNBUFFERED": "1"}
    grade = [sys.executable, "-m", "grader", "check", "--all", "--github"]
    # A shell that starts the tests in the background has told all below it to ignore Ctrl-C; a handler undoes that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(grade, cwd=copy, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("✗ bad"):
            assert process.poll() is None
        process.send_signal(number)
        process.communicate(timeout=60)
    conclusion, notices = reported(outputs_of(output.read_text(encoding="utf-8"))["result"])
    assert conclusion == "Some tests failed."
    assert notices[0].endswith("Points 2/10" if number == signal.SIGINT else "Points 0/10")


@pytest.mark.skipif(sys.platform == "win32", reason="Gradescope runs on Linux")
def test_gradescope_grades_an_upload(course: Path, tmp_path: Path) -> None:
    """The zip unpacked where Gradescope unpacks it, its own two programs run; pip installs nothing."""
    assert (
        cli.main(["release", "--gradescope", str(tmp_path / "a.zip"), "--visibility", "after_published"], course) == 0
    )
    root = tmp_path / "autograder"
    shutil.unpack_archive(tmp_path / "a.zip", root / "source")
    (root / "results").mkdir()
    copy = release(course, tmp_path / "copy")
    hand_in(copy)
    shutil.rmtree(copy / "grader")
    shutil.move(copy, root / "submission")
    install(root / "source" / "course")
    environment = {**os.environ, "AUTOGRADER_ROOT": str(root), "AUTOGRADER_PYTHON": sys.executable}
    subprocess.run(["bash", root / "source" / "run_autograder"], env=environment, check=True, capture_output=True)
    results = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    assert shown_by_gradescope(results) == 2
    assert results["visibility"] == "after_published"
    by_name = {test["name"].partition(":")[0]: test for test in results["tests"]}
    assert {name: test["status"] for name, test in by_name.items()} == {
        "good": "passed",
        **dict.fromkeys(("bad", "hanging", "crashing", "missing"), "failed"),
    }
    assert "add did not return within" in by_name["hanging"]["output"]
    assert "The file missing.py is missing" in by_name["missing"]["output"]
    assert not list((root / "submission").rglob("notes.jsonl"))


@pytest.mark.skipif(sys.platform == "win32", reason="Classroom 50 runs on Linux")
def test_classroom_50_grades_a_checkout(course: Path, tmp_path: Path) -> None:
    """Its runner starts autograder.py in the checkout; a result.json that a student left there is replaced."""
    bundle = tmp_path / "bundle"
    assert cli.main(["release", "--classroom50", str(bundle)], course) == 0
    install(bundle / "course")
    copy = release(course, tmp_path / "copy")
    hand_in(copy)
    (copy / "result.json").symlink_to(tmp_path / "elsewhere")
    date = {f"GIT_{who}_DATE": "2026-11-30T23:59:59+0100" for who in ("AUTHOR", "COMMITTER")}
    git = ["git", "-C", str(copy), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["add", "-A"], ["commit", "-qm", "Hand in"]):
        subprocess.run([*git, *command], check=True, env={**os.environ, **date})
    done = python_in(copy, str(bundle / "autograder.py"), **IDENTITY)
    assert done.returncode == 0, done.stderr
    result = json.loads((copy / "result.json").read_text(encoding="utf-8"))
    assert collected(result, IDENTITY) == (2, 10)
    assert result["datetime"] == "2026-11-30T22:59:59Z"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Classroom 50 runs on Linux")
def test_classroom_50_gets_no_verdict_when_the_course_is_broken(course: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    assert cli.main(["release", "--classroom50", str(bundle)], course) == 0
    install(bundle / "course")
    (bundle / "course" / "reference.sealed").write_bytes(b"broken")
    done = python_in(tmp_path, str(bundle / "autograder.py"), **IDENTITY)
    assert done.returncode == 3
    assert not (tmp_path / "result.json").exists()


def test_an_archive_keeps_what_may_be_executed(course: Path, tmp_path: Path) -> None:
    assert cli.main(["release", "--gradescope", str(tmp_path / "a.zip")], course) == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    assert modes["run_autograder"] == modes["setup.sh"] == 0o755
    assert modes["visibility.txt"] == 0o644

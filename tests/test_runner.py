"""One exercise and one submission in, a result out, and nothing passes that was not seen to pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import TORCH, MakeStudent
from grader import runner
from grader.errors import BrokenExercise, GraderError, StudentFailure
from grader.judging import Group, tensor
from grader.launch import Launcher
from grader.records import Exercise, ExerciseResult, Limits, Outcome, Submission

HEAD = "from grader.judging import Group, assert_close, assert_equal, check, tensor\nimport numpy as np\n"
TWICE = '''
@check(hints=("Twice.",))
def check_twice(student):
    """Twice a number."""
    assert_equal(student.call("f", 2).value, 4, "f(2)")

@check(hints=("Of everything.",), judged_by="network")
def check_sum(student, rng):
    """The sum over the ranks."""
    for result in student.simulated("g", [(tensor(rng.normal(size=2)), Group())] * 2):
        assert result.count("all_reduce") == 1, "One all_reduce is enough."
'''
RIGHT = """
import torch.distributed as dist
def f(x):
    return 2 * x
def g(x, group):
    dist.all_reduce(x, group=group)
"""


class Bench:
    """A folder with one exercise, and a way to run a submission of it."""

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        """Begin without checks."""
        self.folder, self.launcher = folder, launcher
        self.exercise = Exercise("sample", 1, "S", 10, 1, 2, folder, folder, Limits(timeout_s=5.0), TORCH)

    def run(self, source: str | bytes, checks: str = TWICE, **options: bool) -> ExerciseResult:
        """Run `source` against `checks`."""
        (self.folder / "checks.py").write_text(HEAD + checks, encoding="utf-8")
        (self.folder / "sample.py").write_bytes(source if isinstance(source, bytes) else source.encode())
        return runner.run(Submission(self.exercise, self.exercise.starter_path), self.launcher, 1, **options)


@pytest.fixture
def bench(tmp_path: Path, launcher: Launcher) -> Bench:
    """An empty exercise."""
    return Bench(tmp_path, launcher)


def outcomes(result: ExerciseResult) -> list[str]:
    """Return how the checks ended, in order."""
    return [check.outcome.value for check in result.checks]


def test_a_right_submission_passes_every_check(bench: Bench) -> None:
    """And only then are its points earned."""
    result = bench.run(RIGHT)
    assert (result.outcome, outcomes(result), result.points) == (Outcome.PASSED, ["passed", "passed"], 2)


def test_the_first_failure_ends_the_run_unless_all_are_wanted(bench: Bench) -> None:
    """What was not run is NOT_RUN, never passed; for partial credit all checks run."""
    wrong = RIGHT.replace("2 * x", "x")
    assert outcomes(bench.run(wrong)) == ["failed", "not_run"]
    assert outcomes(bench.run(wrong, stop_at_first=False)) == ["failed", "passed"]
    assert bench.run(wrong).first_failure.message == "f(2) is 2, expected 4."  # type: ignore[union-attr]  # there is one


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        (b"", "defines no function called f"),
        (b"\x00\x01", "NUL"),
        ("é".encode("latin-1"), "UTF-8"),
        (b"x = 1\n" * 300_000, "larger than"),
    ],
)
def test_a_file_that_is_no_program_is_a_failure_with_a_sentence(bench: Bench, source: bytes, fragment: str) -> None:
    """Empty, binary, in another encoding, huge."""
    result = bench.run(source)
    assert result.outcome is Outcome.FAILED
    words = result.message or result.first_failure.message  # type: ignore[union-attr]  # one of the two is there
    assert fragment in words


@pytest.mark.parametrize(
    "body",
    ["import pytest; pytest.skip('no')", "raise RuntimeError('ours')", "import sys; sys.exit(0)", "assert_close()"],
)
def test_a_check_that_stops_itself_is_an_error_never_a_pass(bench: Bench, body: str) -> None:
    """A skip, a fault and an exit of a check are all ours."""
    checks = f'@check(hints=("H.",))\ndef check_a(student):\n    """A."""\n    {body}\n'
    try:
        result = bench.run(RIGHT, checks)
    except GraderError:
        return
    assert result.outcome in {Outcome.ERROR, Outcome.FAILED}
    assert outcomes(result) != ["passed"]


def test_an_exercise_without_checks_is_broken(bench: Bench) -> None:
    """Zero checks passed out of zero is no pass."""
    with pytest.raises(BrokenExercise):
        bench.run(RIGHT, "")


def test_an_answer_of_another_form_is_the_submissions_failure(bench: Bench) -> None:
    """The check stumbles over it, the student reads what came back."""
    checks = '@check(hints=("H.",))\ndef check_a(student):\n    """A."""\n    student.call("f", 1).value["loss"]\n'
    result = bench.run("def f(x):\n    return None\n", checks)
    assert result.outcome is Outcome.FAILED
    assert "another form than the contract says: None" in result.first_failure.message  # type: ignore[union-attr]  # there is one


def test_a_configuration_beside_the_checks_is_not_read(bench: Bench) -> None:
    """Neither conftest.py nor pytest.ini nor pyproject.toml changes a verdict."""
    (bench.folder / "conftest.py").write_text("def pytest_runtest_call(item): item.obj = lambda: None\n")
    (bench.folder / "pytest.ini").write_text("[pytest]\naddopts = --collect-only\n")
    assert outcomes(bench.run(RIGHT.replace("2 * x", "x"))) == ["failed", "not_run"]


def test_the_trusted_process_imports_torch_only_if_a_check_does(bench: Bench) -> None:
    """A second or two of every student's every check."""
    bench.run(RIGHT)
    script = f"""
import sys
from pathlib import Path
from grader import runner
from grader.launch import open_launcher
from grader.records import Exercise, Submission
folder = Path({str(bench.folder)!r})
exercise = Exercise("sample", 1, "S", 10, 1, 1, folder, folder, preload={TORCH!r})
launcher = open_launcher()
result = runner.run(Submission(exercise, folder / "sample.py"), launcher, 1)
launcher.close()
print(result.outcome.value, "torch" in sys.modules)
"""
    root = Path(__file__).resolve().parent.parent
    said = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout == "passed False\n", said.stderr


@pytest.mark.parametrize("verb", ["simulated", "ranks"])
def test_spawned_ranks_give_the_same_results_and_the_same_words(
    student_of: MakeStudent, spawning_launcher: Launcher, verb: str
) -> None:
    """What macOS and Windows do, forced here: values, a deadlock and a crash, one after the other."""
    arguments = [(tensor(np.ones(2)), Group())] * 2
    right = student_of(
        RIGHT.replace("group=group)", "group=group)\n    return x"), on=spawning_launcher, timeout_s=60.0
    )
    for _ in range(2):
        for result in getattr(right, verb)("g", arguments):
            assert result.value.array.tolist() == [2.0, 2.0]
    for function, words in [("leaves_early", "rank 1 waits in all_reduce"), ("crashes", "ended by SIGSEGV")]:
        with pytest.raises(StudentFailure, match=words):
            getattr(student_of("hangs", on=spawning_launcher, timeout_s=60.0), verb)(function, arguments)
    for result in getattr(right, verb)("g", arguments):
        assert result.value.array.tolist() == [2.0, 2.0]


IMPORTS = """
import sys
before = set(sys.modules)
import torch, torch.distributed as dist
def f(group):
    held = torch.ones(2, requires_grad=True)
    (held * 2).sum().backward()
    dist.all_reduce(total := torch.ones(3), group=group)
    return sorted(set(sys.modules) - before)
"""


@pytest.mark.parametrize("verb", ["simulated", "ranks"])
def test_a_rank_imports_nothing_that_its_server_has_not(student_of: MakeStudent, verb: str) -> None:
    """What a rank imports it imports in every run again: 20 ms for a backend of ours, compiled each time."""
    first, _ = getattr(student_of(IMPORTS), verb)("f", [(Group(),)] * 2)
    assert first.value == []

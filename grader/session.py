"""One pytest session over one file of checks: how each ended; what was not seen to pass has not passed."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from grader import judging
from grader.errors import GraderError, StudentFailure
from grader.records import CheckResult, Outcome, Promise
from grader.student import Student

INI = Path(__file__).with_name("pytest.ini")
GUARD_FACTOR, GUARD_S = 10, 60  # pytest-timeout is the outer guard, well above the limits of the ranks
ENVIRONMENT = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DEBUG")  # would let a checkout change the session
# Parts of pytest that a check never meets; a third of what a session costs.
UNUSED = frozenset(
    {
        "unittest",
        "legacypath",
        "tmpdir",
        "monkeypatch",
        "recwarn",
        "pastebin",
        "junitxml",
        "doctest",
        "cacheprovider",
        "setuponly",
        "setupplan",
        "stepwise",
        "unraisableexception",
        "threadexception",
        "warnings",
        "logging",
        "faulthandler",
        "subtests",
        "skipping",
    }
)
FORM_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError)

MakeStudent = Callable[[str], Student]


class Collector:
    """A pytest plugin that hands each check its `student` and `rng` and keeps how each ended."""

    def __init__(
        self,
        promises: tuple[Promise, ...],
        make_student: MakeStudent,
        progress: Callable[[str], None],
        most_timeouts: int | None = None,
    ) -> None:
        """Expect exactly the checks in `promises`."""
        self.promises = {promise.name: promise for promise in promises}
        self.make_student, self.progress = make_student, progress
        self.results: dict[str, CheckResult] = {}
        self.students: dict[str, Student] = {}
        self.started_s: dict[str, float] = {}
        self.timeouts_left = most_timeouts

    @pytest.fixture
    def student(self, request: pytest.FixtureRequest) -> Iterator[Student]:
        """Give a check its submission, and end what is left of it afterwards."""
        name = request.node.name
        student = self.students[name] = self.make_student(name)
        yield student
        student.close()

    @pytest.fixture
    def rng(self, request: pytest.FixtureRequest) -> np.random.Generator:
        """Give a check a random generator of its own, the same for the same seed."""
        return np.random.default_rng(self.students[request.node.name].seed)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give `rng` its student first, whatever order the check names them in."""
        for item in items:
            names = getattr(item, "fixturenames", [])
            names.sort(key=lambda name: name != "student")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Announce the check that begins."""
        name = nodeid.rpartition("::")[2]
        self.started_s[name] = time.monotonic()
        place = list(self.promises).index(name) + 1 if name in self.promises else 0
        sentence = self.promises[name].sentence if place else ""
        self.progress(f"check {place} of {len(self.promises)}: {sentence}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep how the check's own call ended; a failure before or after it is ours."""
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        if call.when == "call" or error is not None:
            self.keep(item.name, error, in_check=call.when == "call")
        if isinstance(error, StudentFailure) and error.kind == "timeout" and self.timeouts_left is not None:
            self.timeouts_left -= 1
            item.session.shouldfail = self.timeouts_left <= 0 and "too many checks ran out of time"
        return report

    def keep(self, name: str, error: BaseException | None, *, in_check: bool) -> None:
        """Record a result; a later error of the same check replaces a pass, never the other way round."""
        known = self.results.get(name)
        if name not in self.promises or (known is not None and known.outcome is not Outcome.PASSED):
            return
        student = self.students.get(name)
        outcome, message = judge(error, student) if in_check else (Outcome.ERROR, f"{type(error).__name__}: {error}")
        output = student.outputs[-1] if student is not None and student.outputs else ""
        line, kind = 0, ""
        if isinstance(error, StudentFailure):
            output, line, kind = error.output, error.line or 0, error.kind
        seconds = time.monotonic() - self.started_s.get(name, time.monotonic())
        talks = tuple(student.talks) if student is not None else ()
        seconds = round(seconds, 3)
        self.results[name] = CheckResult(self.promises[name], outcome, message, output, seconds, line, kind, talks)


def judge(error: BaseException | None, student: Student | None) -> tuple[Outcome, str]:
    """Return the outcome and the message for what a check raised; only an assertion is a verdict."""
    if error is None:
        return Outcome.PASSED, ""
    if isinstance(error, AssertionError):
        return Outcome.FAILED, str(error)
    if isinstance(error, FORM_ERRORS) and student is not None and student.answered and raised_by_check(error):
        form = judging.describe(student.answered[-1])
        return (
            Outcome.FAILED,
            f"The answer has another form than the contract says: {form}. The README has the contract.",
        )
    if isinstance(error, pytest.fail.Exception) and "pytest-timeout" in str(error):
        return Outcome.ERROR, "The check took far longer than all its limits together. Check again on a quiet machine."
    return Outcome.ERROR, f"{type(error).__name__}: {error}"


def raised_by_check(error: BaseException) -> bool:
    """Return whether an exception comes from the check's own handling of what a submission answered."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and Path(trace.tb_frame.f_code.co_filename).name in {"checks.py", "held_out.py"}


def run_checks(
    checks: Path,
    promises: tuple[Promise, ...],
    make_student: MakeStudent,
    *,
    stop_at_first: bool,
    guard_s: float,
    progress: Callable[[str], None],
    most_timeouts: int | None = None,
) -> tuple[CheckResult, ...]:
    """Run the checks of one file and return one result for each promise, in the order of the file.

    A check without a positive record is NOT_RUN. Raises GraderError if pytest itself could not do its work.
    """
    collector = Collector(promises, make_student, progress, most_timeouts)
    arguments = [
        str(checks),
        "-c",
        str(INI),
        "--rootdir",
        str(checks.parent),
        "--import-mode=importlib",
        "--noconftest",
    ]
    arguments += ["--assert=plain", "--capture=no", "--tb=native", "-p", "pytest_timeout", *without(sorted(UNUSED))]
    arguments += [f"--timeout={guard_s:g}", *(["--exitfirst"] if stop_at_first else [])]
    code, said = quiet_pytest(arguments, collector)
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not collector.results:
        raise GraderError(
            f"pytest could not run the checks of {checks.parent.name} (exit code {code}):\n{said[-2000:]}"
        )
    return tuple(collector.results.get(p.name, CheckResult(p, Outcome.NOT_RUN)) for p in promises)


def without(plugins: Iterable[str]) -> list[str]:
    """Return the arguments that keep these plugins out of a session."""
    return [argument for name in plugins for argument in ("-p", f"no:{name}")]


def quiet_pytest(arguments: list[str], plugin: object) -> tuple[int, str]:
    """Run pytest in this process, quietly and untouched by the environment; return its exit code and words."""
    said = io.StringIO()
    kept = {name: os.environ.pop(name) for name in ENVIRONMENT if name in os.environ}
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    modules = set(sys.modules)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = int(pytest.main(arguments, plugins=[plugin]))
    finally:
        os.environ.update(kept)
        for name in set(sys.modules) - modules:  # the next exercise has a checks.py of its own
            if name.rpartition(".")[2] in {"checks", "held_out"}:
                del sys.modules[name]
    return code, said.getvalue()


def check_seed(seed: int, name: str) -> int:
    """Return the seed of one check: the run's seed and the check's name, so that checks draw independently."""
    return zlib.crc32(f"{seed}/{name}".encode())


def guard_s(timeout_s: float) -> float:
    """Return the outer guard for checks whose calls may each take `timeout_s`."""
    return GUARD_FACTOR * timeout_s + GUARD_S

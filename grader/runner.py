"""An exercise and a submission in, a result out: the one path of `check`, `audit`, `grade` and the tests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from grader import catalog, files_in
from grader.errors import RefusedFile
from grader.launch import Launcher
from grader.records import CheckResult, ExerciseResult, Outcome, Promise, Submission
from grader.student import Progress, Student, tell_nobody


def run(
    submission: Submission,
    launcher: Launcher,
    seed: int,
    *,
    stop_at_first: bool = True,
    progress: Progress = tell_nobody,
    trace: bool = False,
) -> ExerciseResult:
    """Run the checks of an exercise against a submission, in the order of the file, up to the first that fails.

    The submission's file is read here and runs elsewhere. `trace` keeps what the ranks said to each other.
    Raises BrokenExercise or GraderError for what is ours.
    """
    begun = time.monotonic()
    promises = catalog.promises(submission.exercise)
    try:
        source = files_in.take(submission.path.parent, submission.path.name)
        paths = catalog.used_paths(submission.exercise, submission.course_dir)
        used = {slug: files_in.take(path.parent, path.name) for slug, path in paths.items()}
    except RefusedFile as refusal:
        not_run = tuple(CheckResult(promise, Outcome.NOT_RUN) for promise in promises)
        return ExerciseResult(submission, Outcome.FAILED, not_run, str(refusal))
    checks = run_source(
        submission, source, launcher, seed, promises, used=used, stop_at_first=stop_at_first, progress=progress
    )
    if not trace:
        checks = tuple(replace(check, talks=()) for check in checks)
    return ExerciseResult(submission, outcome_of(checks), checks, seconds=round(time.monotonic() - begun, 3))


def run_source(
    submission: Submission,
    source: bytes,
    launcher: Launcher,
    seed: int,
    promises: tuple[Promise, ...],
    *,
    used: Mapping[str, bytes] = MappingProxyType({}),
    checks: Path | None = None,
    stop_at_first: bool = True,
    most_timeouts: int | None = None,
    progress: Progress = tell_nobody,
) -> tuple[CheckResult, ...]:
    """Run the checks of the exercise, or those of another file, against a submission's source.

    After `most_timeouts` checks that ran out of time the others are not run: whatever hangs would hang in them, too.
    """
    from grader import session  # imports pytest, which `list` and `hint` do without

    # a guess from untrusted words: it only decides what is imported early
    texts = [each.decode("utf-8", "replace") for each in (source, *used.values())]
    preload = {*submission.exercise.preload, *catalog.imports_of(*texts)}
    exercise = replace(submission.exercise, preload=tuple(sorted(preload)))
    harness = exercise.harness_path.read_bytes() if exercise.harness_path.exists() else None
    words = ["", ""]

    def tell(place: int, what: str) -> None:
        words[place] = what
        progress(", ".join(filter(None, words)))

    def make_student(name: str) -> Student:
        seed_of_check = session.check_seed(seed, name)
        return Student(exercise, source, harness, launcher, seed_of_check, lambda what: tell(1, what), used)

    return session.run_checks(
        checks or exercise.checks_path,
        promises,
        make_student,
        stop_at_first=stop_at_first,
        most_timeouts=most_timeouts,
        guard_s=session.guard_s(exercise.limits.timeout_s),
        progress=lambda what: tell(0, what),
    )


def outcome_of(checks: tuple[CheckResult, ...]) -> Outcome:
    """Return PASSED only if there are checks and every one of them is known to have passed."""
    outcomes = {check.outcome for check in checks}
    if outcomes == {Outcome.PASSED}:
        return Outcome.PASSED
    return Outcome.ERROR if Outcome.ERROR in outcomes or not outcomes else Outcome.FAILED

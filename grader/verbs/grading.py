"""Grade students' files for `check`: each exercise at most once, in this process or in several at a time."""

from __future__ import annotations

import atexit
import functools
import io
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from grader import catalog, changes, files_in, runner
from grader.errors import BrokenExercise, GraderError
from grader.launch import Launcher, open_launcher
from grader.patience import with_patience
from grader.records import Exercise, ExerciseResult, Level, Outcome, Request, Submission

DEFAULT_SEED = 0  # the same for everyone, so that a failure looks the same tomorrow


@dataclass(frozen=True)
class Graded:
    """Pair a result with how confined the ranks were."""

    result: ExerciseResult
    isolation: Level
    isolation_words: str


Grade = Callable[[Exercise], Graded]
Tell = Callable[[str], None]


@contextmanager
def open_grader(
    request: Request, chosen: Sequence[Exercise], course: Iterable[Exercise], tell: Tell
) -> Iterator[Grade]:
    """Yield a function that grades one exercise, and first what it uses; what was graded once is remembered."""
    opened = (_in_this_process if request.jobs == 1 else _in_several)(request, chosen, tell)
    with opened as grade:
        by_slug = {exercise.slug: exercise for exercise in course}

        @functools.cache
        def with_uses(exercise: Exercise) -> Graded:
            for used in exercise.uses:
                graded = with_uses(by_slug[used])
                if graded.result.outcome is not Outcome.PASSED:
                    return replace(graded, result=blocked(exercise, used))
            return grade(exercise)

        yield with_uses


def grade(exercise: Exercise, launcher: Launcher, seed: int, tell: Tell, *, trace: bool = False) -> Graded:
    """Grade the student's file of one exercise; what is wrong with the exercise or the grader is its ERROR."""
    submission = Submission(exercise, exercise.starter_path, exercise.student_dir.parents[1])
    seed = catalog.exercise_seed(exercise.slug, seed)

    def look(patient: Exercise) -> ExerciseResult:
        tried = replace(submission, exercise=patient)
        found = runner.run(tried, launcher, seed, progress=lambda words: tell(f"{exercise.slug}: {words}"), trace=trace)
        return replace(found, submission=submission)

    try:
        result = with_patience(look, exercise, lambda found: any(check.kind == "timeout" for check in found.checks))
    except (BrokenExercise, GraderError) as error:
        result = ExerciseResult(submission, Outcome.ERROR, message=str(error))
    if result.outcome is Outcome.PASSED:
        result = _with_changes(result)
    warnings = (*result.warnings, *files_in.shadowing(exercise.student_dir))
    return Graded(replace(result, warnings=warnings), launcher.level, launcher.words)


def _with_changes(result: ExerciseResult) -> ExerciseResult:
    exercise, before = result.submission.exercise, changes.pristine(result.submission.exercise)
    after = exercise.starter_path.read_text("utf-8-sig", errors="replace")
    if before is None or before == after or not exercise.reference_path.exists():
        return result
    reference = changes.changed_lines_of_reference(before, exercise.reference_path.read_text("utf-8"))
    return replace(result, changed_lines=changes.changed_lines(before, after), reference_changed_lines=reference)


@contextmanager
def _in_this_process(request: Request, chosen: Sequence[Exercise], tell: Tell) -> Iterator[Grade]:
    # only what the first one needs: whatever else is imported when it is needed, and often it is not
    with closing(open_launcher(request.required_level, preload=chosen[0].preload)) as launcher:
        yield lambda exercise: grade(exercise, launcher, _seed(request), tell, trace=request.trace)


@contextmanager
def _in_several(request: Request, chosen: Sequence[Exercise], tell: Tell) -> Iterator[Grade]:
    """Begin with all exercises that use no other, each in its own trusted process with its own launcher."""
    pool = ProcessPoolExecutor(request.jobs, multiprocessing.get_context("spawn"), _be_stoppable)
    try:
        begun = {exercise: pool.submit(_grade_there, exercise, request) for exercise in chosen if not exercise.uses}

        def wait_for(exercise: Exercise) -> Graded:
            tell(f"{exercise.slug}: {request.jobs} exercises at a time")
            try:
                return (begun.get(exercise) or pool.submit(_grade_there, exercise, request)).result()
            except BrokenProcessPool as error:
                raise GraderError("A grading process was ended from outside. Try again with `--jobs 1`.") from error

        yield wait_for
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown()


def _seed(request: Request) -> int:
    return DEFAULT_SEED if request.seed is None else request.seed


def blocked(exercise: Exercise, used: str) -> ExerciseResult:
    """Return the result of an exercise that uses another one which is not repaired."""
    message = f"Repair {used} first, which this exercise uses.\nnox -s check -- {used}"
    return ExerciseResult(Submission(exercise, exercise.starter_path), Outcome.NOT_RUN, message=message)


# --- in a process of the pool -----------------------------------------------------------------------------------------

_is_busy = False


@functools.cache
def _launcher_of_process(required: Level) -> Launcher:
    launcher = open_launcher(required)
    atexit.register(launcher.close)
    return launcher


def _grade_there(exercise: Exercise, request: Request) -> Graded:
    global _is_busy
    _is_busy = True
    try:
        launcher = _launcher_of_process(request.required_level)
        return grade(exercise, launcher, _seed(request), _tell_nobody, trace=request.trace)
    finally:
        _is_busy = False


def _tell_nobody(_words: str) -> None:
    """Progress is shown by the parent."""


def _be_stoppable() -> None:
    """End when told to, and say nothing: what goes wrong in a task reaches the parent.

    A process that is ended while it reads leaves half a message, and the next one would print a traceback about it.
    """
    sys.stderr = io.StringIO()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End the ranks of a run and remove its folders on the way out; the parent's signal may follow the keyboard's."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt if _is_busy else SystemExit(0)

"""Grade a class; what was graded is kept, whatever happens, and the same command goes on from there."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from grader import catalog
from grader.classroom import commits, policy, tables
from grader.classroom.collect import Course, Entry, Known, collect, collect_starters, collect_wrong_repairs
from grader.classroom.feedback import write_feedback
from grader.classroom.gradebook import ClassMarks, class_marks
from grader.classroom.handed_in import students_of
from grader.classroom.hands import Pool, as_work, graded, on_this_machine
from grader.classroom.store import Store
from grader.errors import BrokenExercise, GraderError, UsageError
from grader.launch import open_launcher
from grader.records import Level, Outcome

INTERRUPTED, OURS = 130, 3
DEVCONTAINER = (
    "The devcontainer has all of it: open this checkout with `Reopen in Container`, or as a Codespace, and grade. "
    "`--isolation B0` grades here without it, and the report says so."
)
AS_ROOT = (
    "This is root, for whom the limit on processes does not hold: a submission that starts processes without end can "
    "bring the machine to a halt. Grade as an ordinary user."
)
UNCONFINED = "Graded at B0: a submission could read the checks and this user's files. See SECURITY.md."
LINES_OF_PROGRESS = 20  # where nobody watches

Tick = Callable[[], None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add = parser.add_argument
    add("folder", type=Path, metavar="DIR", help="holds one cloned repository or archive a student")
    add("--out", type=Path, metavar="F", help="write into folder F (by default DIR-grades, beside DIR)")
    add("--policy", type=Path, metavar="F", help="how results become points (by default grading.toml of the course)")
    add("--roster", type=Path, metavar="F", help="CSV: student, and name, id, sis_user_id, login, section, email")
    add("--only", nargs="+", default=[], metavar="SLUG", help="grade these exercises only")
    add("--seed", type=int, metavar="N", help="draw the inputs of the checks from this seed (by default a new one)")
    add("--again", action="store_true", help="forget all results and grade again, with a new seed")
    add("--isolation", choices=list(Level.__members__), default="B1", help="the least that confines a submission")
    add("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="grade N at a time")
    add("--dask", metavar="ADDRESS", help="grade on the Dask cluster whose scheduler listens there")
    add("--shard", type=_shard, metavar="I/N", help="grade the I-th of N parts of the class, for --merge")
    add("--merge", type=Path, nargs="+", default=[], metavar="F", help="take over the results of these shards first")
    add("--no-beliefs", action="store_true", help="do not grade the known wrong repairs, which takes some minutes")


@dataclass(frozen=True)
class _Class:
    """Hold who and what is to be graded."""

    entries: Sequence[Entry]
    known: Sequence[Known]
    course: Course


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Grade, write everything, and return 0 unless something could not be graded."""
    rules, roster = policy.read(arguments.policy, root), tables.read_roster(arguments.roster)
    if rules.has_deadline and not commits.git_is_there():
        raise UsageError("There is a deadline, and git, which tells when something was committed, is not installed.")
    folder = arguments.folder.resolve()
    hand_ins = students_of(folder)
    out = (arguments.out or folder.with_name(f"{folder.name}-grades")).resolve()
    if out == folder or folder in out.parents:
        raise UsageError(f"{out} lies inside {folder}, where everything is a hand-in. Choose another with `--out`.")
    level = Level[arguments.isolation]
    if not arguments.dask:
        _refuse_weak_machine(level)
        if _is_root():
            print(AS_ROOT, file=sys.stderr)
    with closing(Store(out, level)) as store:
        for shard in arguments.merge:
            store.merge(shard)
        class_ = _collect(arguments, root, hand_ins, store, with_dates=rules.has_deadline)
        total = store.count_waiting()
        try:
            _grade(arguments, class_.course, store, total)
        except KeyboardInterrupt:
            left = store.count_waiting()
            print(f"Interrupted: {total - left} of {total} graded and kept. The same command goes on.", file=sys.stderr)
            return INTERRUPTED
        if arguments.shard:
            print(
                f"Shard {arguments.shard[0]} of {arguments.shard[1]} is graded. Next: `grade DIR --merge` the folders."
            )
            return 0
        marks = class_marks(class_.entries, class_.known, class_.course, store, rules)
    _write(marks, roster, out)
    return _conclude(marks, out)


def _collect(
    arguments: argparse.Namespace, root: Path, hand_ins: Sequence[Path], store: Store, *, with_dates: bool
) -> _Class:
    exercises = catalog.load_course(root)
    if not exercises:
        raise BrokenExercise("exercises:1: there is no exercise here. Get a complete copy of the course.")
    chosen = catalog.select(exercises, arguments.only) if arguments.only else exercises
    seed = store.seed(arguments.seed, again=arguments.again)
    course = Course.of(root, chosen, seed)
    number, shards = arguments.shard or (1, 1)
    entries = []
    with _progress(len(hand_ins[number - 1 :: shards]), "reading") as tick:
        for path in hand_ins[number - 1 :: shards]:
            entries.append(collect(path, course, store, with_dates=with_dates))
            tick()
    part = Course.of(root, chosen[number - 1 :: shards], seed)  # of what is graded once for all
    known = collect_starters(part, store)
    if not arguments.no_beliefs:
        known += collect_wrong_repairs(part, store)
    return _Class(entries, known, course)


def _grade(arguments: argparse.Namespace, course: Course, store: Store, total: int) -> None:
    """Have everything graded that waits, and keep each verdict as it comes."""
    if not total:
        return
    by_slug = {exercise.slug: exercise for exercise in course.exercises}
    slugs: dict[str, str] = {}

    def works() -> Iterator[tuple[str, dict[str, object]]]:
        for waiting in store.waiting():
            exercise, level = by_slug[waiting.slug], Level[arguments.isolation]
            slugs[waiting.key] = waiting.slug
            yield waiting.key, as_work(waiting, exercise, course, level)

    with _pool(arguments) as pool, _progress(total, "grading") as tick:
        for key, verdict in graded(works(), pool):
            store.keep(key, slugs.pop(key), verdict)
            tick()


@contextmanager
def _pool(arguments: argparse.Namespace) -> Iterator[Pool]:
    if arguments.dask:
        from grader.classroom.cluster import on_dask

        with on_dask(arguments.dask) as pool:
            yield pool
    else:
        with on_this_machine(max(1, arguments.jobs)) as pool:
            yield pool


def _write(marks: ClassMarks, roster: tables.Roster, out: Path) -> None:
    from grader.classroom.class_report import write_class_report  # imports jinja2, which the others do without

    tables.write_tables(marks, roster, out)
    write_feedback(marks, out)
    write_class_report(marks, out, _remarks(marks))


def _remarks(marks: ClassMarks) -> list[str]:
    remarks = [UNCONFINED] if marks.level is Level.B0 else []
    if _is_root():
        remarks.append(AS_ROOT)
    dated = sum(any(mark.late_days for mark in student.marks) or bool(student.commit) for student in marks.students)
    if marks.policy.has_deadline and (without := len(marks.students) - dated):
        remarks.append(f"{without} hand-ins have no commit, so nobody knows when they were made; none counts as late.")
    return remarks


def _is_root() -> bool:
    """Return whether this user may do everything."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _conclude(marks: ClassMarks, out: Path) -> int:
    results = [mark for student in marks.students for mark in student.marks]
    errors = [mark for mark in results if mark.outcome is Outcome.ERROR]
    passed = sum(mark.outcome is Outcome.PASSED for mark in results)
    print(f"{len(marks.students)} students, {len(results)} results, {passed} repaired.")
    print(f"isolation {marks.level.name}, seed {marks.seed}")
    print(f"{out}: report.html, report.md, grades.csv, grades.json, canvas.csv, moodle.csv, feedback/")
    for mark in errors[:3]:
        check = mark.first_failure
        print(f"{mark.exercise.slug}: {check.message if check else mark.verdict.result.message}", file=sys.stderr)
    if errors:
        print(
            f"{len(errors)} could not be graded, which is our fault. Run it again to try these again.", file=sys.stderr
        )
    return OURS if errors else 0


def _refuse_weak_machine(required: Level) -> None:
    """Say before anything is read what this machine lacks, and where it is to be had."""
    try:
        open_launcher(required).close()
    except GraderError as error:
        raise GraderError(f"{error} {DEVCONTAINER}") from None


@contextmanager
def _progress(total: int, what: str) -> Iterator[Tick]:
    """Yield a function to call after each of `total` steps: a bar with an estimate, or now and then a line."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
        return
    step, done = max(1, total // LINES_OF_PROGRESS), 0

    def tick() -> None:
        nonlocal done
        done += 1
        if what == "grading" and (done % step == 0 or done == total):
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    yield tick


def _shard(word: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", word)
    if found and 1 <= int(found[1]) <= int(found[2]):
        return int(found[1]), int(found[2])
    raise argparse.ArgumentTypeError(f"`{word}` is no part: the third of eight is 3/8")

"""Prove exercises, or list the changes to their references that no check notices."""

from __future__ import annotations

import argparse
import atexit
import functools
import multiprocessing
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from grader import catalog
from grader.audit import examples, golden, prove
from grader.audit.evidence import gather
from grader.audit.folders import course_is_in_order
from grader.audit.problem import Problem
from grader.audit.survivors import survey
from grader.errors import BrokenExercise, UsageError
from grader.launch import Launcher, open_launcher
from grader.records import Exercise, Level
from grader.report.terminal import Screen
from grader.safe_text import did_you_mean
from grader.verbs.grading import DEFAULT_SEED
from grader.verbs.run import RANKS, command, environment, needs_ranks

SEEDS = 3  # a right repair that passes by luck seldom has it three times
BROKEN = 3


@dataclass(frozen=True)
class Task:
    """Name one exercise to audit, and how."""

    root: Path
    file: Path  # its exercise.toml
    seeds: tuple[int, ...]
    update: bool
    thorough: bool = False


@dataclass(frozen=True)
class Finding:
    """Hold what was found about one exercise: problems, and words that are shown beside them."""

    problems: tuple[Problem, ...]
    words: tuple[str, ...] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="audit these exercises only")
    jobs = (os.cpu_count() or 1) + 1  # one more than there are cores: a wrong repair that hangs is waited for
    parser.add_argument("--jobs", type=int, default=jobs, metavar="N", help="audit N exercises at a time")
    parser.add_argument("--update", action="store_true", help="write the golden files anew")
    parser.add_argument("--thorough", action="store_true", help="run every right repair with every seed")
    parser.add_argument("--mutate", action="store_true", help="list changes to the reference that no check notices")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Print one line a problem and return 3 if there is one, else 0."""
    seeds = tuple(secrets.randbelow(2**31) for _ in range(SEEDS))
    tasks = [Task(root, file, seeds, arguments.update, arguments.thorough) for file in _files(root, arguments.slugs)]
    whole = [] if arguments.slugs or arguments.mutate else [_course(root)]
    problems: set[Problem] = set()
    screen = Screen(sys.stdout, sys.stderr)
    screen.tell(f"auditing {len(tasks)} exercises")
    found = _each(_mutate if arguments.mutate else _prove, tasks, max(1, arguments.jobs))
    for done, finding in enumerate(chain(whole, found), 1 - len(whole)):
        new = [problem for problem in finding.problems if problem not in problems]
        screen.show([((line, ""),) for line in (*finding.words, *(problem.shown(root) for problem in new))])
        screen.tell(f"{done} of {len(tasks)} audited")
        problems.update(new)
    screen.show([((f"{len(tasks)} audited, {len(problems)} to repair.", ""),)])
    return BROKEN if problems else 0


def _files(root: Path, slugs: Sequence[str]) -> list[Path]:
    """Return the `exercise.toml` of each exercise; one that is broken must not hide the others."""
    files = {file.parent.name: file for file in sorted((root / "exercises").glob("ch*_*/*/exercise.toml"))}
    names = [Path(slug).name.removesuffix(".py") for slug in slugs] or list(files)
    for name in names:
        if name not in files:
            raise UsageError(f"There is no exercise `{name[:100]}`.{did_you_mean(name, files)}")
    return [files[name] for name in names]


def _course(root: Path) -> Finding:
    problems = list(course_is_in_order(root))
    try:
        catalog.load_course(root)
    except BrokenExercise as error:
        problems.append(Problem.of(error, root))
    return Finding(tuple(problems))


def _each(work: Callable[[Task], Finding], tasks: Sequence[Task], jobs: int) -> Iterator[Finding]:
    """Yield the finding of each task in order; several processes share them, each with a launcher of its own."""
    if min(jobs, len(tasks)) < 2:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(min(jobs, len(tasks)), multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


def _prove(task: Task) -> Finding:
    try:
        exercise = catalog.load_exercise(task.root, task.file)
    except BrokenExercise as error:
        return Finding((Problem.of(error, task.root),))
    in_runs = _run(exercise, task) if prove.can_run(exercise) else Finding(())
    problems = prove.in_order([*prove.faults_on_disk(exercise, task.root), *in_runs.problems])
    return Finding(tuple(problems), in_runs.words)


def _run(exercise: Exercise, task: Task) -> Finding:
    """Run all that can be run of an exercise, write the golden files if asked to, and return what is wrong."""
    try:
        students_seed = catalog.exercise_seed(exercise.slug, DEFAULT_SEED)
        evidence = gather(exercise, _launcher(), students_seed, task.seeds, thorough=task.thorough)
        faults = prove.faults_in_runs(evidence)
    except BrokenExercise as error:
        return Finding((Problem.of(error, task.root),))
    with golden.as_reached(exercise) as folder:
        printed = _printed(exercise, folder)
    texts = golden.golden_texts(exercise, evidence.first_report, printed)
    rewritten = golden.rewrite(texts) if task.update else []
    words = tuple(f"wrote {path.relative_to(task.root).as_posix()}" for path in rewritten)
    return Finding((*faults, *golden.golden_files_hold(texts)), words)


def _printed(exercise: Exercise, folder: Path) -> str:
    """Return what the starter's example prints."""
    starter = folder / exercise.starter_path.name
    if sys.platform != "linux":
        return golden.printed_by(command(exercise), folder, environment())
    return examples.printed_by(starter, RANKS if needs_ranks(starter) else 0, environment())


def _mutate(task: Task) -> Finding:
    exercise: Exercise = catalog.load_exercise(task.root, task.file)
    found = survey(exercise, _launcher(), task.seeds[0])
    return Finding(found.problems, (found.words,))


@functools.cache
def _launcher() -> Launcher:
    """Open one launcher a process; what it runs is the course's own, which needs no namespaces around it."""
    launcher = open_launcher(at_most=Level.B1)
    atexit.register(launcher.close)
    return launcher

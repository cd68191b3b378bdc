"""Rules on what submissions do: the starter fails, right repairs pass, each wrong one is caught where it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader import catalog, runner
from grader.audit.folders import repairs
from grader.audit.problem import Problem
from grader.audit.words import caught_by
from grader.launch import Launcher
from grader.records import Exercise, ExerciseResult, Outcome, Submission

BUDGET_S = 6.0  # for the reference: forty exercises of some seventeen runs each are audited in six minutes


@dataclass(frozen=True)
class Evidence:
    """Hold what every submission of one exercise did, each result with its seed."""

    starter: tuple[tuple[int, ExerciseResult], ...]  # first with the seed that a student's `check` uses
    right: tuple[tuple[int, ExerciseResult], ...]  # the reference with every seed, each file of right/ with its own
    wrong: tuple[tuple[int, ExerciseResult], ...]

    @property
    def first_report(self) -> ExerciseResult:
        """Return what a student's first `check` finds."""
        return self.starter[0][1]


def gather(
    exercise: Exercise, launcher: Launcher, students_seed: int, seeds: tuple[int, ...], *, thorough: bool = False
) -> Evidence:
    """Run every submission of an exercise: the reference with all the seeds, what shall fail with the first.

    Each right repair has a seed of its own, so that the checks meet as many seeds as there are repairs; `thorough` runs
    it with all the seeds as well.
    """

    def outcome(path: Path, seed: int) -> tuple[int, ExerciseResult]:
        return seed, runner.run(Submission(exercise, path), launcher, seed)

    right = repairs(exercise, "right")
    passing = [(exercise.reference_path, seed) for seed in seeds]
    passing += [(path, catalog.exercise_seed(path.stem, seeds[0])) for path in right]
    passing += [(path, seed) for path in right for seed in seeds if thorough]
    return Evidence(
        starter=tuple(outcome(exercise.starter_path, seed) for seed in (students_seed, seeds[0])),
        right=tuple(outcome(*each) for each in passing),
        wrong=tuple(outcome(path, seeds[0]) for path in repairs(exercise, "wrong")),
    )


def starter_fails(evidence: Evidence) -> Iterator[Problem]:
    """The starter fails, and at the same check whatever the seed."""
    names = [first_failure(result) for _, result in evidence.starter]
    for (seed, result), name in zip(evidence.starter, names, strict=True):
        path = result.submission.path
        if result.outcome is not Outcome.FAILED:
            yield Problem(path, 1, f"the starter {told(result, seed)}; it must fail a check")
        elif name != names[0]:
            yield Problem(path, 1, f"the starter fails first at {names[0]}, but with seed {seed} at {name}")


def right_repairs_pass(evidence: Evidence) -> Iterator[Problem]:
    """The reference and every right repair pass, whatever the seed."""
    for seed, result in evidence.right:
        if result.outcome is not Outcome.PASSED:
            yield Problem(result.submission.path, 1, f"{told(result, seed)}; a right repair must pass")


def wrong_repairs_are_caught(evidence: Evidence) -> Iterator[Problem]:
    """Every wrong repair fails first at the check that it names."""
    for seed, result in evidence.wrong:
        path, name = result.submission.path, caught_by(result.submission.path)
        if result.outcome is not Outcome.FAILED or first_failure(result) != name:
            yield Problem(path, 1, f"{told(result, seed)}; it must fail first at {name or 'the check that it names'}")


def checks_are_needed(evidence: Evidence) -> Iterator[Problem]:
    """Every check is the first to catch the starter or a wrong repair, or says what it guards."""
    exercise = evidence.first_report.submission.exercise
    catching = {first_failure(result) for _, result in (*evidence.starter, *evidence.wrong)}
    for promise in catalog.promises(exercise):
        if promise.name not in catching and not promise.guards:
            fact = f"{promise.name} is the first to catch nothing; add a wrong repair, or say what it `guards`"
            yield Problem(exercise.checks_path, promise.line, fact)


def time_is_within_budget(evidence: Evidence) -> Iterator[Problem]:
    """All checks together take a few seconds; the fastest of the reference's runs counts."""
    exercise = evidence.first_report.submission.exercise
    runs = [result.seconds for _, result in evidence.right if result.submission.path == exercise.reference_path]
    if (seconds := min(runs) / waiting_factor()) > BUDGET_S:
        fact = f"all checks take {seconds:.1f} s on the reference; make them smaller, to {BUDGET_S:.0f} s at most"
        yield Problem(exercise.checks_path, 1, fact)


def waiting_factor() -> float:
    """Return by how much a busy machine stretches a run: how many programs want each core, where that is known."""
    wanting = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
    return max(1.0, wanting / (os.cpu_count() or 1))


def first_failure(result: ExerciseResult) -> str:
    """Return the name of the check at which a submission failed first, or nothing."""
    return result.first_failure.promise.name if result.first_failure else ""


def told(result: ExerciseResult, seed: int) -> str:
    """Say in a clause how a submission ended."""
    check, words = result.first_failure, {Outcome.PASSED: "passes every check", Outcome.NOT_RUN: "was not run"}
    if check is None:
        return f"{words.get(result.outcome, f'was refused: {result.message}')} (seed {seed})"
    how = "fails first at" if check.outcome is Outcome.FAILED else "could not be judged by"
    return f"{how} {check.promise.name} (seed {seed}: {' '.join(check.message.split())[:300]})"

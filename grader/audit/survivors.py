"""Which mutants of a reference no check notices."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader import runner
from grader.audit.mutants import Mutant, mutants
from grader.audit.problem import Problem, line_of, lines_of
from grader.launch import Launcher
from grader.records import Exercise, Outcome, Submission
from grader.tables import read

HEADING = "## Equivalent mutants"  # of notes.md: one a line, "- `before` -> `after`: why nothing can notice it"
EXPLAINED = re.compile(r"^- (`.+` -> `.+`): \S")
TIMEOUT_S = 3.0  # for one call: a mutant may loop forever


@dataclass(frozen=True)
class Survey:
    """Count the mutants of one reference and hold those that are left to explain."""

    slug: str
    total: int
    killed: int
    explained: int
    problems: tuple[Problem, ...]

    @property
    def words(self) -> str:
        """Return the one line that sums up."""
        noticed = f"{self.slug}: {self.killed} of {self.total} changes are noticed"
        return f"{noticed}, {self.explained} explained, {len(self.problems)} left"


def survey(exercise: Exercise, launcher: Launcher, seed: int) -> Survey:
    """Run the checks against every mutant of the reference, one at a time."""
    limits = replace(exercise.limits, timeout_s=min(exercise.limits.timeout_s, TIMEOUT_S))
    hasty, explained = replace(exercise, limits=limits), explanations(exercise.reference_dir / "notes.md")
    judges = "\n".join(map(read, filter(Path.exists, (exercise.checks_path, exercise.harness_path))))
    found = tuple(mutants(read(exercise.reference_path), judges))
    outcomes = [outcome_of(hasty, mutant, launcher, seed) for mutant in found]
    survivors = [m for m, outcome in zip(found, outcomes, strict=True) if outcome is Outcome.PASSED]
    problems = (
        *(Problem(exercise.reference_path, m.line, f"{m.change} survives every check")
          for m in survivors if m.change not in explained),
        *_unjudged(exercise, found, outcomes),
        *_stale(exercise, explained, {mutant.change for mutant in survivors}),
    )  # fmt: skip
    killed = outcomes.count(Outcome.FAILED)
    return Survey(exercise.slug, len(found), killed, sum(m.change in explained for m in survivors), problems)


def outcome_of(exercise: Exercise, mutant: Mutant, launcher: Launcher, seed: int) -> Outcome:
    """Run the checks against one mutant, as against any submission."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / exercise.starter_path.name
        path.write_text(mutant.source, encoding="utf-8")
        return runner.run(Submission(exercise, path), launcher, seed).outcome


def explanations(path: Path) -> set[str]:
    """Return the changes that notes.md explains under its heading."""
    _, _, below = "\n".join(lines_of(path)).partition(HEADING)
    lines = below.partition("\n## ")[0].splitlines()
    return {mark[1] for line in lines if (mark := EXPLAINED.match(line))}


def _unjudged(exercise: Exercise, found: tuple[Mutant, ...], outcomes: list[Outcome]) -> Iterator[Problem]:
    for mutant, outcome in zip(found, outcomes, strict=True):
        if outcome not in {Outcome.PASSED, Outcome.FAILED}:
            yield Problem(exercise.reference_path, mutant.line, f"{mutant.change} makes a check end in our own error")


def _stale(exercise: Exercise, explained: set[str], survivors: set[str]) -> Iterator[Problem]:
    path = exercise.reference_dir / "notes.md"
    for change in sorted(explained - survivors):
        yield Problem(path, line_of(path, change), f"{change} is explained, but a check notices it; remove the line")

"""Show the course, what is repaired and what is next."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from grader import catalog, notes
from grader.records import Exercise, Outcome
from grader.report.terminal import Screen
from grader.report.text import Line, Look, command, paragraph


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(_arguments: argparse.Namespace, root: Path) -> int:
    """Print the course from the notes, without running anything."""
    course = catalog.load_course(root)
    screen = Screen(sys.stdout, sys.stderr)
    outcomes, complaints = _outcomes(course)
    following = next((exercise for exercise in course if outcomes[exercise.slug] is not Outcome.PASSED), None)
    for _, chapter in groupby(course, key=lambda exercise: exercise.chapter):
        screen.show(_chapter(list(chapter), outcomes, following, screen.look))
    last = command("next", f"nox -s check -- {following.slug}") if following else (("  All are repaired.", "bold"),)
    screen.show([line for complaint in complaints for line in paragraph(complaint, screen.look, "yellow")])
    screen.show([last])
    return 0


def _outcomes(course: Sequence[Exercise]) -> tuple[dict[str, Outcome], list[str]]:
    """Return how the last run of each exercise ended, NOT_RUN without one, and what is wrong with the notes."""
    outcomes, complaints = {}, list[str]()
    for exercise in course:
        events, wrong = notes.read(exercise.student_dir)
        last = notes.last_run(events)
        outcomes[exercise.slug] = notes.outcome_of(last)
        complaints += wrong
        if not exercise.starter_path.is_file():
            outcomes[exercise.slug] = Outcome.ERROR
            complaints.append(f"{exercise.starter_path.name} is missing: git checkout -- {exercise.starter_path.name}")
    return outcomes, complaints


def _chapter(
    exercises: Sequence[Exercise], outcomes: dict[str, Outcome], following: Exercise | None, look: Look
) -> list[Line]:
    repaired = sum(outcomes[exercise.slug] is Outcome.PASSED for exercise in exercises)
    width = max(len(exercise.slug) for exercise in exercises)
    name = exercises[0].student_dir.parent.name.replace("_", " ")
    lines: list[Line] = [((f"{name} {look.dot} {repaired} of {len(exercises)} repaired", "bold"),)]
    for exercise in exercises:
        here = "   <- next" if exercise is following else ""
        sign = look.sign(outcomes[exercise.slug])
        lines.append((("  ", ""), sign, (f" {exercise.slug:<{width}}   {exercise.title}", ""), (here, "bold")))
    return [*lines, ()]

"""Give the next, stronger hint for the check that failed last."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from grader import catalog, notes
from grader.records import Exercise, Outcome, Promise
from grader.report import story
from grader.report.terminal import Screen
from grader.report.text import Line, Look, command, paragraph


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise")
    parser.add_argument("--taken", action="store_true", help="show the hints that you took, and take none")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Print one hint and note that it was taken."""
    (exercise,) = catalog.select(catalog.load_course(root), [arguments.slug])
    screen = Screen(sys.stdout, sys.stderr)
    events, complaints = notes.of(exercise)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    answer = story.hints(exercise, events, screen.look) if arguments.taken else next_hint(exercise, events, screen.look)
    screen.show([*answer, command("again", f"nox -s check -- {exercise.slug}")])
    return 0


def next_hint(exercise: Exercise, events: list[notes.Event], look: Look) -> list[Line]:
    """Return the next hint for the check that failed last and note that it was taken, or say why there is none."""
    last = notes.last_run(events)
    if last is None:
        return paragraph("Hints follow the check that fails, so check once first.", look)
    if notes.outcome_of(last) is Outcome.PASSED:
        return paragraph(f"{exercise.slug} passed when it was last checked: there is nothing to hint at.", look)
    promise = next((each for each in catalog.promises(exercise) if each.name == last["first_failure"]), None)
    if promise is None:
        return paragraph(
            "The last run failed before any of today's checks. Check again and read the message first.", look
        )
    return _next_hint(exercise, promise, notes.hints_taken(events, promise.name), look)


def _next_hint(exercise: Exercise, promise: Promise, taken: int, look: Look) -> list[Line]:
    """Return the hint after those that were taken; the report itself shows the first."""
    hints = (*promise.hints, catalog.mechanism(exercise).last_hint)
    head = paragraph(promise.sentence, look, "bold")
    if taken >= len(hints):
        words = f"There are no more hints for this check. The last was: {hints[-1]}"
        return [*head, *paragraph(words, look)]
    complaint = notes.append(exercise.student_dir, "hint", check=promise.name, number=taken + 1)
    if complaint:
        print(complaint, file=sys.stderr)
    return [*head, *paragraph(f"hint {taken + 1} of {len(hints)}: {hints[taken]}", look, "cyan")]

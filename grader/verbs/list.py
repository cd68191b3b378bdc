"""Show the course, what is repaired and what is next; or what the notes hold of one exercise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from grader import catalog, notes, quiz
from grader.records import Exercise, Outcome
from grader.report import story
from grader.report.terminal import Screen
from grader.report.text import Line, Look, command, paragraph, plain


@dataclass(frozen=True)
class Entry:
    """Hold what the notes know of one exercise."""

    exercise: Exercise
    events: list[notes.Event]
    outcome: Outcome
    complaints: list[str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="show your notes on these exercises")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Print from the notes, without running anything."""
    course = catalog.load_course(root)
    screen = Screen(sys.stdout, sys.stderr)
    chosen = catalog.select(course, arguments.slugs) if arguments.slugs else course
    entries = [_entry(exercise) for exercise in chosen]
    if arguments.slugs:
        for entry in entries:
            screen.show([_line(entry, "", len(entry.exercise.slug), screen.look)])
            screen.show([*story.whole(entry.exercise, entry.events, screen.look), ()])
        following = None
    else:
        following = show_course(entries, screen)
    screen.show(
        [line for each in entries for words in each.complaints for line in paragraph(words, screen.look, "yellow")]
    )
    if following:
        screen.show([command("next", f"nox -s check -- {following.slug}")])
    elif not arguments.slugs:
        screen.show([(("  All are repaired.", "bold"),)])
    return 0


def show_course(entries: Sequence[Entry], screen: Screen) -> Exercise | None:
    """Print every chapter and return the exercise that is next."""
    following = next((entry.exercise for entry in entries if entry.outcome is not Outcome.PASSED), None)
    for _, chapter in groupby(entries, key=lambda entry: entry.exercise.chapter):
        screen.show(_chapter(list(chapter), following, screen.look))
    return following


def _entry(exercise: Exercise) -> Entry:
    """Read how the last run of an exercise ended, NOT_RUN without one, and what is wrong with its notes."""
    events, complaints = notes.of(exercise)
    if not exercise.starter_path.is_file():
        words = f"{exercise.starter_path.name} is missing. `nox -s reset -- {exercise.slug}` gives the starter back."
        return Entry(exercise, events, Outcome.ERROR, [*complaints, words])
    for folder in exercise.former_dirs:
        if (folder / f"{folder.name}.py").is_file():
            complaints.append(f"{folder.name} is called {exercise.slug} now; your file is still in {folder.name}/.")
    return Entry(exercise, events, notes.outcome_of(notes.last_run(events)), complaints)


def _chapter(entries: list[Entry], following: Exercise | None, look: Look) -> list[Line]:
    repaired = sum(entry.outcome is Outcome.PASSED for entry in entries)
    width = max(len(entry.exercise.slug) for entry in entries)
    folder = entries[0].exercise.student_dir.parent
    right, answered = notes.best_try(notes.read(folder)[0])
    name = f"{folder.name.replace('_', ' ')} {look.dot} {repaired} of {len(entries)} repaired"
    if answered:
        name += (
            f" {look.dot} knowledge check {right} of {answered}{', passed' if quiz.is_passed(right, answered) else ''}"
        )
    lines: list[Line] = [((name, "bold"),)]
    for entry in entries:
        here = "   <- next" if entry.exercise is following else ""
        lines.append(_line(entry, here, width, look))
        if noted := story.summary(entry.exercise, entry.events, look):
            lines += _beside(lines.pop(), noted, width, look)
    return [*lines, ()]


def _line(entry: Entry, here: str, width: int, look: Look) -> Line:
    name = f" {entry.exercise.slug:<{width}}   {entry.exercise.title}"
    return ("  ", ""), look.sign(entry.outcome), (name, ""), (here, "bold")


def _beside(line: Line, noted: str, width: int, look: Look) -> list[Line]:
    """Put the notes on the exercise's own line, or below its title where they do not fit."""
    if len(plain([line])) + 3 + len(noted) <= look.width:
        return [(*line, (f"   {noted}", "dim"))]
    return [line, ((" " * (width + 7) + noted, "dim"),)]

"""Give the original starter back, and keep the student's file beside it."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import count
from pathlib import Path

from grader import catalog, changes, notes
from grader.errors import RanklingsError, UsageError
from grader.records import Exercise
from grader.report.as_json import replace_file
from grader.report.terminal import Screen
from grader.report.text import command, paragraph


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Put the starter back; what was there is renamed, whatever it was, and never overwritten."""
    (exercise,) = catalog.select(catalog.load_course(root), [arguments.slug])
    starter = changes.pristine(exercise)
    if starter is None:
        raise UsageError(f"The original of {exercise.slug} is not in this copy. Get {_name(exercise)} from the course.")
    screen = Screen(sys.stdout, sys.stderr)
    if _is(exercise.starter_path, starter):
        screen.show(paragraph(f"{_name(exercise)} is the original starter already.", screen.look))
        return 0
    kept = _set_aside(exercise.starter_path)
    replace_file(exercise.starter_path, starter)
    complaint = notes.append(exercise.student_dir, "reset", kept=kept)
    words = f"{_name(exercise)} is the original starter again." + (f" Your file is kept as {kept}." if kept else "")
    screen.show([*paragraph(words, screen.look), command("again", f"nox -s check -- {exercise.slug}")])
    if complaint:
        print(complaint, file=sys.stderr)
    return 0


def _is(path: Path, text: str) -> bool:
    """Say whether an ordinary file at `path` holds the text, whatever its line ends."""
    try:
        return not path.is_symlink() and path.read_text(encoding="utf-8").splitlines() == text.splitlines()
    except (OSError, UnicodeDecodeError):
        return False


def _set_aside(path: Path) -> str:
    """Give what stands at `path` another name, without looking into it; return that name, or nothing if none did."""
    if not os.path.lexists(path):
        return ""
    names = (f"{path.stem}.mine{'' if number == 1 else f'-{number}'}.py" for number in count(1))
    kept = next(name for name in names if not os.path.lexists(path.with_name(name)))
    try:
        path.rename(path.with_name(kept))
    except OSError as error:
        raise RanklingsError(f"{path.name} cannot be renamed ({error.strerror}), so nothing was changed.") from None
    return kept


def _name(exercise: Exercise) -> str:
    return exercise.starter_path.name

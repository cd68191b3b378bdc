"""Find a student's files in a folder that somebody else laid out: a repository, an upload, an unpacked archive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.errors import UsageError
from grader.records import Exercise


def handed_in(course: Sequence[Exercise], folder: Path) -> tuple[Exercise, ...]:
    """Return the course with each exercise's file where it lies in `folder`: laid out as here, or all files loose.

    Only names are looked at. A link on the way to a file is kept for `files_in` to refuse, never followed.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Name the one that holds the student's `exercises/`.")
    base = _base(folder)
    return tuple(replace(exercise, student_dir=_place(exercise, base)) for exercise in course)


def _base(folder: Path) -> Path:
    """Return the folder, or the only one inside it, as archives are often packed."""
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] not in "._"]
    alone = len(inside) == 1 and inside[0].name != "exercises" and (inside[0] / "exercises").is_dir()
    return inside[0] if alone else folder


def _place(exercise: Exercise, base: Path) -> Path:
    """Return the folder to take the exercise's file from."""
    name, folder = exercise.starter_path.name, base
    for part in ("exercises", exercise.student_dir.parent.name, exercise.slug):
        folder /= part
        if folder.is_symlink():
            return folder
    is_laid_out = os.path.lexists(base / "exercises")
    is_loose = os.path.lexists(base / name) and not os.path.lexists(folder / name)
    return folder if is_laid_out and not is_loose else base

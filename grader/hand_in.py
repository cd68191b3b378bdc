"""Find a student's files in a folder that somebody else laid out: a repository, an unpacked archive, loose files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from grader.errors import RefusedFile, UsageError
from grader.files_in import MAX_BYTES, read_regular
from grader.records import Exercise


@contextmanager
def handed_in(course: Sequence[Exercise], folder: Path) -> Iterator[tuple[Exercise, ...]]:
    """Yield the course with each exercise's file where it lies in `folder`, in whose `exercises/` nothing is written.

    Only names are looked at. A link on the way to a file is kept for `files_in` to refuse, never followed.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder. Name the one that holds the student's `exercises/`.")
    base = _base(folder)
    if os.path.lexists(base / "exercises"):
        yield tuple(replace(exercise, student_dir=_place(exercise, base)) for exercise in course)
        return
    with tempfile.TemporaryDirectory(prefix="ranklings-") as scratch:
        yield tuple(replace(exercise, student_dir=_laid_out(exercise, base, Path(scratch))) for exercise in course)


def _base(folder: Path) -> Path:
    """Return the folder, or the only one inside it, as archives are often packed."""
    inside = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and path.name[0] not in "._"]
    alone = len(inside) == 1 and inside[0].name != "exercises" and (inside[0] / "exercises").is_dir()
    return inside[0] if alone else folder


def _place(exercise: Exercise, base: Path) -> Path:
    """Return the folder to take the exercise's file from, or the first link on the way."""
    folder = base
    for part in ("exercises", exercise.student_dir.parent.name, exercise.slug):
        folder /= part
        if folder.is_symlink():
            return folder
    return folder


def _laid_out(exercise: Exercise, base: Path, scratch: Path) -> Path:
    """Copy a loose file to its place, where others that use it find it; one that is refused is missing there."""
    name = exercise.starter_path.name
    folder = scratch / "exercises" / exercise.student_dir.parent.name / exercise.slug
    folder.mkdir(parents=True)
    with suppress(RefusedFile):
        (folder / name).write_bytes(read_regular(base, name, MAX_BYTES))
    return folder

"""Bring a new version of the course into a student's repository: their repairs and notes stay as they are.

What was released is known by its hash, so what a student edited is known, too. Git is not asked, no link is followed.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from grader.errors import RefusedFile, UsageError
from grader.files_in import read_regular
from grader.release.members import MANIFEST, SCHEMA, Files, hashes_of
from grader.release.writing import write_file

MAX_BYTES = 64 << 20
ALIKE = 0.6  # of two files, above which one is taken for the other's new form
_PART = r"(?!\.{1,2}(?:/|$))[\w.][\w.-]*"
_NAME = re.compile(rf"(?!(?i:\.git)(?:/|$)){_PART}(?:/{_PART})*")  # of a file that a release may hold


class Repository:
    """Know what a student's repository holds beside what was released into it."""

    def __init__(self, folder: Path, files: Files) -> None:
        """Read the manifest of the release that was there before; `files` are those of the new one."""
        self.folder, self.files = folder, files
        self.old = _manifest(folder)
        self.new = {name: known for name, known in hashes_of(files).items() if name != MANIFEST}
        self.written = self.removed = 0

    def held(self, name: str) -> str | None:
        """Return the hash of a file, None when it is missing, and an empty one for what is no ordinary file."""
        if not os.path.lexists(self.folder / name):
            return None
        try:
            return hashlib.sha256(read_regular(self.folder, name, MAX_BYTES)).hexdigest()
        except RefusedFile:
            return ""

    def is_edited(self, name: str) -> bool:
        """Say whether the file is there and neither as it was nor as it will be."""
        return self.held(name) not in {None, self.old.get(name), self.new.get(name)}

    def put(self, name: str) -> None:
        """Write the new version of a file, which is there whole or not at all."""
        if self.held(name) != self.new[name]:
            unfinished = self.folder / f"{name}.new-{os.getpid()}"
            write_file(unfinished, self.files[name])
            unfinished.replace(self.folder / name)
            self.written += 1

    def remove(self, name: str) -> None:
        """Take a file away, and the folders that it leaves empty."""
        path = self.folder / name
        if os.path.lexists(path):
            path.unlink()
            self.removed += 1
        for parent in path.relative_to(self.folder).parents[:-1]:
            if (self.folder / parent).is_dir() and not any((self.folder / parent).iterdir()):
                (self.folder / parent).rmdir()

    def keep_beside(self, name: str) -> str:
        """Give the student's version of one of our files another name, and return it."""
        taken = (f"{name}.mine{number or ''}" for number in range(1000))
        free = next(each for each in taken if not os.path.lexists(self.folder / each))
        (self.folder / name).rename(self.folder / free)
        return free


def update(folder: Path, files: Files) -> Iterator[str]:
    """Write the new version file by file, and yield a sentence for each that needs the student's attention.

    Raises:
        UsageError: the folder is no students' copy, or something in it stands in the way; nothing is written then.
    """
    repository = Repository(folder, files)
    names = sorted(repository.old.keys() | repository.new.keys())
    _refuse_odd_places(folder, names)
    for name in names:
        if sentence := (_starter if _is_starter(name) else _of_ours)(repository, name):
            yield sentence
    write_file(folder / MANIFEST, files[MANIFEST])  # last: what was interrupted is done again
    yield (
        f"{repository.written} files written, {repository.removed} removed. Repairs and notes are as they were.\n"
        f"look at it: git -C {folder} status        keep it: git -C {folder} add -A && git -C {folder} commit"
    )


def _starter(repository: Repository, name: str) -> str:
    """Put a new starter only where there is none, or where nobody has begun to repair the old one."""
    slug, edited = PurePosixPath(name).stem, repository.is_edited(name)
    if name not in repository.new:
        if edited:
            return f"{slug} is no longer in the course{_new_name(repository, name)}. Your {name} is kept."
        repository.remove(name)
    elif repository.held(name) is None and name in repository.old:
        return (
            f"{name} is missing{_found_beside(repository, name)}. The new starter is not put there: {_way_back(slug)}"
        )
    elif not edited:
        repository.put(name)
    elif repository.old.get(name) != repository.new[name]:
        return f"The starter of {slug} is another one now. Your {name} is kept; to begin anew: {_way_back(slug)}"
    return ""


def _of_ours(repository: Repository, name: str) -> str:
    """Put our file; what a student made of it is kept under another name."""
    edited = repository.is_edited(name)
    if name not in repository.new:
        if edited:
            return f"{name} is no longer part of the course. Yours, which you changed, is kept."
        repository.remove(name)
        return ""
    kept = repository.keep_beside(name) if edited else ""
    repository.put(name)
    return f"{name} belongs to the course, and is the new one. Yours, which you changed, is now {kept}." if kept else ""


def _way_back(slug: str) -> str:
    return f"nox -s reset -- {slug}"


def _found_beside(repository: Repository, name: str) -> str:
    """Name the file in the same folder that a renamed repair may be in."""
    folder = (repository.folder / name).parent
    others = sorted(path.name for path in folder.glob("*.py")) if folder.is_dir() else []
    return f"; {', '.join(others[:3])} lies there, perhaps renamed" if others else ""


def _new_name(repository: Repository, name: str) -> str:
    """Name the new exercise whose starter the student's file resembles most."""
    mine = (repository.folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
    fresh = [each for each in repository.new.keys() - repository.old.keys() if _is_starter(each)]
    texts = {each: repository.files[each].decode().splitlines() for each in fresh}
    ratios = {each: difflib.SequenceMatcher(None, mine, text).ratio() for each, text in texts.items()}
    best = max(ratios, key=lambda each: ratios[each], default="")
    return f"; it seems to be {PurePosixPath(best).stem} now, in {best}" if ratios.get(best, 0.0) >= ALIKE else ""


def _is_starter(name: str) -> bool:
    path = PurePosixPath(name)
    return path.parts[0] == "exercises" and len(path.parts) == 4 and path.name == f"{path.parent.name}.py"


def _manifest(folder: Path) -> dict[str, str]:
    """Return the hashes of what was released; a student may have edited them, so names are looked at."""
    try:
        whole = json.loads(read_regular(folder, MANIFEST, MAX_BYTES))
        if whole["schema"] != SCHEMA:
            raise UsageError(f"{folder / MANIFEST} was written by another version. Make a new students' copy instead.")
        return {str(name): str(known) for name, known in whole["files"].items() if _NAME.fullmatch(name)}
    except (RefusedFile, ValueError, KeyError, TypeError, AttributeError):
        way_out = f"Make one, and copy your exercises there: release {folder}-new"
        raise UsageError(f"{folder} is no students' copy: it has no readable {MANIFEST}. {way_out}") from None


def _refuse_odd_places(folder: Path, names: list[str]) -> None:
    """Refuse before anything is written: a link could lead out of the repository."""
    for parent in sorted({parent for name in names for parent in PurePosixPath(name).parents}):
        path = folder / parent
        if os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            raise UsageError(
                f"{path} is a link or a file, where the course has a folder. Remove it, then update again."
            )
    for path in (folder / name for name in names):
        if path.is_dir() and not path.is_symlink():
            raise UsageError(f"{path} is a folder, where the course has a file. Rename it, then update again.")

"""Find the students of a folder, and take from each what the course asks for: named files and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from grader import files_in, notes
from grader.classroom import archives, commits
from grader.errors import RefusedFile, UsageError
from grader.records import Exercise
from grader.safe_text import clean

MAX_DEPTH, MAX_FOLDERS = 2, 200  # how far inside a hand-in the course may begin
SKIPPED: Final = {"__MACOSX", "__pycache__"}
NO_COURSE = "There is no folder `exercises` in this hand-in. Hand in the whole repository."

Taken = bytes | RefusedFile


@dataclass(frozen=True)
class HandIn:
    """Hold what one student handed in: for each exercise the program's bytes, or why they are not taken."""

    student: str
    programs: Mapping[str, Taken]  # by slug
    commit: str = ""
    dates: Mapping[str, int] = field(default_factory=dict)  # by slug, seconds since 1970
    answers: Mapping[int, Sequence[notes.Event]] = field(default_factory=dict)  # by chapter


def students_of(folder: Path) -> list[Path]:
    """Return the hand-ins in a folder, by name: folders and archives, each called like its student.

    Raises:
        UsageError: there is none, or two have one name.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be read: {error.strerror}. It holds one folder or archive a student."
        ) from None
    found = [
        Path(entry.path)
        for entry in entries
        if not entry.name.startswith(".")
        and entry.name not in SKIPPED
        and (
            entry.is_dir(follow_symlinks=False)
            or (archives.is_archive(entry.name) and entry.is_file(follow_symlinks=False))
        )
    ]
    if not found:
        raise UsageError(f"{folder} holds no hand-in. It shall hold one cloned repository or archive a student.")
    names = [name_of(path) for path in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{folder} holds two hand-ins called {clean(name, 100)}. Take one of them away.")
    return found


def name_of(path: Path) -> str:
    """Return the student's name: that of the folder, or of the archive without its ending."""
    name = path.name
    if path.is_dir():
        return name
    ending = next(
        ending for ending in sorted(archives.SUFFIXES, key=len, reverse=True) if name.lower().endswith(ending)
    )
    return name[: -len(ending)]


def take(path: Path, course: Sequence[Exercise], root: Path, *, with_dates: bool) -> HandIn:
    """Return what a student handed in, nothing executed, no link followed, nothing larger than a program."""
    programs = {exercise.slug: exercise.starter_path.relative_to(root).as_posix() for exercise in course}
    answers = {exercise.chapter: _notes_path(exercise, root) for exercise in course}
    try:
        home = _home(path)
    except RefusedFile as refusal:
        return HandIn(name_of(path), dict.fromkeys(programs, refusal))
    if home.is_dir():
        return _from_folder(path, home, programs, answers, with_dates=with_dates)
    return _from_archive(path, home, programs, answers)


def _from_folder(
    path: Path, home: Path, programs: Mapping[str, str], answers: Mapping[int, str], *, with_dates: bool
) -> HandIn:
    repository = next(
        (folder for folder in (home, *home.parents) if (folder / ".git").exists() or folder == path), path
    )
    commit, within = commits.commit_of(repository), home.relative_to(repository).as_posix()
    places = {slug: program if within == "." else f"{within}/{program}" for slug, program in programs.items()}
    dates = commits.dates_of(repository, commit, places.values()) if with_dates else {}
    return HandIn(
        name_of(path),
        {slug: _taken(home, program) for slug, program in programs.items()},
        commit,
        {slug: dates[place] for slug, place in places.items() if place in dates},
        {chapter: notes.read(home / Path(file).parent)[0] for chapter, file in answers.items()},
    )


def _taken(home: Path, program: str) -> Taken:
    try:
        return files_in.take(home, program)
    except RefusedFile as refusal:
        return refusal


def _from_archive(path: Path, home: Path, programs: Mapping[str, str], answers: Mapping[int, str]) -> HandIn:
    wanted = dict.fromkeys(programs.values(), files_in.MAX_BYTES)
    wanted |= dict.fromkeys(answers.values(), notes.MAX_BYTES)
    try:
        contents = archives.read_archive(home, wanted)
    except RefusedFile as refusal:
        return HandIn(name_of(path), dict.fromkeys(programs, refusal))
    events = {
        chapter: notes.events_of(content, Path(file).parent.name)[0]
        for chapter, file in answers.items()
        if isinstance(content := contents.files.get(file), bytes) and len(content) <= notes.MAX_BYTES
    }
    return HandIn(
        name_of(path), {slug: _checked(contents, program) for slug, program in programs.items()}, answers=events
    )


def _checked(contents: archives.Contents, program: str) -> Taken:
    """Put a file from an archive to the same rules as one from a folder."""
    folder, _, name = program.rpartition("/")
    content = contents.files.get(program)
    try:
        if content is None:
            files_in.refuse_missing(Path(folder), name, list(contents.neighbours.get(folder, ())))
        if isinstance(content, bytes):
            files_in.refuse_large(name, len(content), files_in.MAX_BYTES)
            files_in.refuse_odd_text(name, content)
    except RefusedFile as refusal:
        return refusal
    assert content is not None, "or it was refused as missing"
    return content


def _home(path: Path) -> Path:
    """Return the folder that holds `exercises`, or the archive: the hand-in itself, or what lies near its top."""
    if not path.is_dir():
        return path
    level, seen = [path], 0
    inner: list[Path] = []
    for _ in range(MAX_DEPTH + 1):
        for folder in level:
            if _is_folder(folder / "exercises"):
                return folder
        entries = [entry for folder in level for entry in _entries(folder)]
        seen += len(entries)
        inner += [
            Path(entry.path)
            for entry in entries
            if archives.is_archive(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        level = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        if seen > MAX_FOLDERS:
            break
    if len(inner) == 1:
        return inner[0]
    raise RefusedFile(NO_COURSE if not inner else f"{NO_COURSE[:-1]}, or as one archive, not {len(inner)}.")


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        yield from sorted(
            (e for e in os.scandir(folder) if not e.name.startswith(".") and e.name not in SKIPPED),
            key=lambda e: e.name,
        )
    except OSError:  # a folder that cannot be read holds nothing to grade
        return


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _notes_path(exercise: Exercise, root: Path) -> str:
    return (exercise.student_dir.parent / notes.NAME).relative_to(root).as_posix()

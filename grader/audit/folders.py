"""Rules on names and files: both halves of an exercise, nothing missing, nothing unknown."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from grader.audit.problem import Problem
from grader.records import Exercise

CHAPTER = re.compile(r"ch([1-9])_[a-z][a-z_]*")
SLUG = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
CHAPTER_FILES = {"exercises": {"README.md", "playground.py"}, "reference": {"quiz.toml", "truth.py"}}
MADE_BY_TOOLS = {"__pycache__", "notes.jsonl", ".DS_Store"}
FEWEST = {"right": 2, "wrong": 5}


def name_fault(slug: str) -> str | None:
    """Say why a slug cannot name an exercise, or nothing if it can."""
    if not SLUG.fullmatch(slug):
        return f"`{slug}` is no exercise name; use small letters, digits and single underscores, a letter first"
    if keyword.iskeyword(slug) or keyword.issoftkeyword(slug):
        return f"`{slug}` is a word of the Python language; choose another name"
    if slug in sys.stdlib_module_names or importlib.util.find_spec(slug) is not None:
        return f"`{slug}` is the name of a module, which the exercise's file would hide; choose another name"
    return None


def name_is_free(exercise: Exercise) -> Iterator[Problem]:
    """An exercise's name is valid and hides no module."""
    if fault := name_fault(exercise.slug):
        yield Problem(exercise.student_dir, 1, fault)


def halves_are_complete(exercise: Exercise) -> Iterator[Problem]:
    """Each half holds the files it must, and none that nobody knows."""
    yield from _compare(
        exercise.student_dir, must={"README.md", "exercise.toml", exercise.starter_path.name, *exercise.data}
    )
    must = {"checks.py", "mechanism.toml", "first_output.txt", "first_report.txt", "notes.md", "right", "wrong"}
    yield from _compare(
        exercise.reference_dir, must={*must, exercise.reference_path.name}, may={"held_out.py", "harness.py"}
    )


def repairs_are_enough(exercise: Exercise) -> Iterator[Problem]:
    """At least two right and five wrong repairs lie in their folders, and nothing else does."""
    for kind, fewest in FEWEST.items():
        folder = exercise.reference_dir / kind
        strangers = [path for path in _entries(folder) if path.suffix != ".py" or not path.is_file()]
        yield from (Problem(path, 1, f"only Python files belong into `{kind}/`; remove it") for path in strangers)
        if (found := len(repairs(exercise, kind))) < fewest and folder.is_dir():
            yield Problem(folder, 1, f"{found} {kind} repairs, and an exercise needs at least {fewest}; write more")


def repairs(exercise: Exercise, kind: str) -> tuple[Path, ...]:
    """Return the files of `right/` or `wrong/`, in order."""
    return tuple(path for path in _entries(exercise.reference_dir / kind) if path.suffix == ".py" and path.is_file())


def course_is_in_order(root: Path) -> Iterator[Problem]:
    """Every folder of one half has its twin in the other, and a chapter's folder holds nothing unknown."""
    halves = {half: _entries(root / half) for half in CHAPTER_FILES}
    for half, twin in (("exercises", "reference"), ("reference", "exercises")):
        for chapter in halves[half]:
            if not (chapter.is_dir() and CHAPTER.fullmatch(chapter.name)):
                yield Problem(chapter, 1, f"not a chapter; `{half}/` holds folders such as `ch1_data_parallel`")
                continue
            yield from _chapter(chapter, root / twin / chapter.name, CHAPTER_FILES[half])


def _chapter(chapter: Path, twin: Path, files: set[str]) -> Iterator[Problem]:
    for path in _entries(chapter):
        if path.is_dir() and not (twin / path.name).is_dir():
            yield Problem(path, 1, f"`{twin.parent.name}/{chapter.name}/{path.name}/` is missing, its other half")
        if path.is_file() and path.name not in files:
            yield Problem(path, 1, f"unknown file; a chapter holds {_listed(files)} and its exercises")


def _compare(folder: Path, must: set[str], may: frozenset[str] | set[str] = frozenset()) -> Iterator[Problem]:
    found = {path.name for path in _entries(folder)}
    for name in sorted(must - found):
        yield Problem(folder / name, 1, "is missing")
    for name in sorted(found - must - may):
        yield Problem(folder / name, 1, f"is unknown; this folder holds {_listed(must | may)}")


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name not in MADE_BY_TOOLS)


def _listed(names: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))

"""Begin an exercise: two folders, filled with a small one that works and says what to write in its place."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grader import catalog
from grader.audit.folders import CHAPTER, name_fault
from grader.errors import UsageError
from grader.records import Exercise
from grader.verbs import audit

PATTERN = Path(__file__).parent.parent / "templates" / "exercise"
SLUG, TITLE, POSITION = "new_exercise", "A new exercise", "position = 10"  # as they stand in the pattern


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise's name: small letters, digits, underscores")
    parser.add_argument("--chapter", type=int, required=True, metavar="N", help="the chapter's number")
    parser.add_argument("--title", metavar="TEXT", help="the exercise's title; by default its name in words")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Write both folders of the new exercise, and put them to the audit, which lists what is left to write."""
    slug = arguments.slug
    for folder in begin(root, slug, arguments.chapter, arguments.title or slug.replace("_", " ").capitalize()):
        print(f"made {folder.relative_to(root).as_posix()}/")
    print(f"again: nox -s audit -- {slug} --update        what is left to write:", flush=True)
    audit.run(argparse.Namespace(slugs=[slug], jobs=1, update=True, thorough=False, mutate=False), root)
    return 0


def begin(root: Path, slug: str, number: int, title: str) -> tuple[Path, Path]:
    """Write both folders of a new exercise, the last of its chapter, and return them.

    Raises:
        UsageError: the name or the title cannot be, or there is no such chapter.
    """
    course, chapter = catalog.load_course(root), _chapter(root, number)
    _refuse(slug, title, course, chapter, root)
    position = 10 + max((e.position // 10 * 10 for e in course if e.chapter == number), default=0)
    words = {
        f'"{TITLE}"': json.dumps(title, ensure_ascii=False),
        TITLE: title,
        SLUG: slug,
        POSITION: f"position = {position}",
    }
    student, reference = (root / half / chapter / slug for half in ("exercises", "reference"))
    copy_half(PATTERN / "student", student, words)
    copy_half(PATTERN / "reference", reference, words)
    return student, reference


def _chapter(root: Path, number: int) -> str:
    names = {int(name[1]): name[0] for path in (root / "exercises").glob("*") if (name := CHAPTER.fullmatch(path.name))}
    if number not in names:
        numbers = ", ".join(map(str, sorted(names))) or "none yet"
        raise UsageError(f"There is no chapter {number}; the course has {numbers}.")
    return names[number]


def _refuse(slug: str, title: str, course: tuple[Exercise, ...], chapter: str, root: Path) -> None:
    if any(exercise.slug == slug for exercise in course):
        raise UsageError(f"There is an exercise `{slug}` already; choose another name.")
    for folder in (root / half / chapter / slug for half in ("exercises", "reference")):
        if folder.exists():
            path = folder.relative_to(root).as_posix()
            raise UsageError(f"`{path}` exists already; remove it, or choose another name.")
    if fault := name_fault(slug):
        raise UsageError(f"{fault}.")
    if not (title.isprintable() and title.strip()):
        raise UsageError("A title is one line of text; write it without control characters.")


def copy_half(pattern: Path, folder: Path, words: dict[str, str]) -> None:
    """Copy a half of the pattern, its words replaced in texts and in names."""
    for source in sorted(path for path in pattern.rglob("*") if path.suffix in {".py", ".md", ".toml"}):
        text = source.read_text(encoding="utf-8")
        for old, new in words.items():
            text = text.replace(old, new)
        target = folder / str(source.relative_to(pattern)).replace(SLUG, words[SLUG])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")

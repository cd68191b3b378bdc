"""Decide what a students' copy holds: in the open, and in the sealed file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader import catalog, changes
from grader.errors import BrokenExercise, UsageError
from grader.records import Exercise
from grader.sealed import NAME as SEALED
from grader.sealed import seal

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent
TEMPLATE = PACKAGE / "templates" / "students"
MANIFEST, SCHEMA = "release.json", "ranklings/release/1"
AS_THEY_ARE = ("noxfile.py", "pyproject.toml", "LICENSE", ".devcontainer/devcontainer.json")
INSTRUCTORS = (
    *("audit", "classroom", "release", "templates"),
    *("verbs/audit.py", "verbs/grade.py", "verbs/new.py", "verbs/release.py"),
)
TEST_TIMEOUT_MIN = 10  # the first test of a fresh machine installs PyTorch

Files = dict[str, bytes]


def students_copy(root: Path, *, with_references: bool = False) -> Files:
    """Return every file of the students' copy by its path: the same bytes for the same course, wherever it is made."""
    course = catalog.load_course(root)
    if not course:
        raise BrokenExercise("exercises:1: there is no exercise here. Get a complete copy of the course.")
    files = {
        **{name: (CHECKOUT / name).read_bytes() for name in AS_THEY_ARE},
        **_tree(TEMPLATE),
        **{f"grader/{name}": data for name, data in _tree(PACKAGE, INSTRUCTORS).items()},
        **_exercises(course),
        SEALED: seal(sealed_members(course, with_references=with_references)),
        ".github/classroom/autograding.json": _autograding(course),
    }
    return {**files, MANIFEST: _manifest(files)}


def sealed_members(course: Sequence[Exercise], *, with_references: bool = False) -> dict[str, str]:
    """Return what the grader needs of the instructor's half at run time, by path below `reference/`."""
    members = {}
    for exercise in course:
        folder = exercise.reference_dir
        names = ("checks.py", "harness.py", "mechanism.toml", *((f"{exercise.slug}.py",) if with_references else ()))
        place = f"{folder.parent.name}/{exercise.slug}"
        members[f"{place}/{exercise.pristine_path.name}"] = _pristine(exercise)
        members |= {f"{place}/{name}": _text(folder / name) for name in names if (folder / name).is_file()}
    for chapter in dict.fromkeys(exercise.reference_dir.parent for exercise in course):
        known = (chapter / name for name in ("quiz.toml", "truth.py"))
        members |= {f"{chapter.name}/{path.name}": _text(path) for path in known if path.is_file()}
    return dict(sorted(members.items()))


def hashes_of(files: Files) -> dict[str, str]:
    """Return the hash by which a file is known again."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def _exercises(course: Sequence[Exercise]) -> Files:
    files = {}
    for exercise in course:
        place = f"exercises/{exercise.student_dir.parent.name}/{exercise.slug}"
        files[f"{place}/{exercise.starter_path.name}"] = _pristine(exercise).encode()
        files |= _those_there(exercise.student_dir, place, ("README.md", "exercise.toml", *exercise.data))
    for chapter in dict.fromkeys(exercise.student_dir.parent for exercise in course):
        files |= _those_there(chapter, f"exercises/{chapter.name}", ("README.md", "playground.py"))
    return files


def _those_there(folder: Path, place: str, names: Sequence[str]) -> Files:
    return {f"{place}/{name}": (folder / name).read_bytes() for name in names if (folder / name).is_file()}


def _pristine(exercise: Exercise) -> str:
    """Return the starter, unless somebody tried the exercise in this checkout: their repair must not be released."""
    text, committed = _text(exercise.starter_path), changes.pristine(exercise)
    if committed is not None and text != committed:
        name = exercise.starter_path.name
        raise UsageError(f"{name} differs from what git has. Commit it, or put it back: git checkout -- '*/{name}'")
    return text


def _tree(folder: Path, left_out: Sequence[str] = ()) -> Files:
    """Return the files below a folder by path."""
    return {name: path.read_bytes() for name, path in _walk(folder) if not _lies_in(name, left_out)}


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and not any(map(_is_made_by_a_tool, inner.parts)):
            yield inner.as_posix(), path


def _is_made_by_a_tool(part: str) -> bool:
    return part in {"__pycache__", ".DS_Store", ".hypothesis"} or part.endswith("_cache")


def _lies_in(name: str, places: Sequence[str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _autograding(course: Sequence[Exercise]) -> bytes:
    """Return the tests for services that read GitHub Classroom's older form: a command for each exercise."""
    tests = [
        {
            "name": exercise.slug,
            "setup": "python3 -m pip install --quiet nox" if place == 0 else "",
            "run": f"python3 -m nox -s check -- {exercise.slug}",
            "input": "",
            "output": "",
            "comparison": "included",
            "timeout": TEST_TIMEOUT_MIN,
            "points": exercise.points,
        }
        for place, exercise in enumerate(course)
    ]
    return _json({"tests": tests})


def _manifest(files: Files) -> bytes:
    return _json({"schema": SCHEMA, "files": hashes_of(files)})


def _json(whole: object) -> bytes:
    return (json.dumps(whole, ensure_ascii=False, indent=1) + "\n").encode()

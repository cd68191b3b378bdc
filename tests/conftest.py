"""What several tests need: a launcher that lives as long as the session, and students of one-file submissions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fake_class
from grader.launch import Launcher, open_launcher
from grader.records import Exercise, Limits
from grader.student import Student

TORCH = ("numpy", "torch", "torch.distributed")
SUBMISSIONS = Path(__file__).parent / "submissions"

MakeStudent = Callable[..., Student]


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    """Start ranks by the best means of this machine."""
    launcher = open_launcher(preload=TORCH)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def spawning_launcher() -> Iterator[Launcher]:
    """Start ranks as macOS and Windows do."""
    launcher = open_launcher(method="spawn", preload=TORCH)
    yield launcher
    launcher.close()


@pytest.fixture(scope="session")
def class_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a course of three exercises, to grade a class with."""
    return fake_class.write_course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="session")
def graded_class(class_course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the hand-ins of twelve and grade them without interruption; return their folder."""
    base = tmp_path_factory.mktemp("term")
    (base / "victim.txt").write_text("untouched")
    folder = fake_class.write_class(base / "class", base / "victim.txt")
    done = fake_class.grade(class_course, folder, fake_class.CLASS_SEED)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def student_of(launcher: Launcher) -> Iterator[MakeStudent]:
    """Return a maker of students whose submission is a piece of source, or a file in tests/submissions."""
    made: list[Student] = []

    def make(source: str | bytes, *, seed: int = 7, on: Launcher = launcher, **limits: float) -> Student:
        known = SUBMISSIONS / f"{source}.py" if isinstance(source, str) and "\n" not in source else None
        text = known.read_bytes() if known else source.encode() if isinstance(source, str) else bytes(source)
        folder = Path(os.devnull)  # nothing is read from it
        options = Limits(**{"timeout_s": 5.0, **limits})  # type: ignore[arg-type]  # the fields are checked by Limits
        exercise = Exercise("sample", 1, "Sample", 10, 1, 1, folder, folder, limits=options, preload=TORCH)
        made.append(Student(exercise, text, None, on, seed))
        return made[-1]

    yield make
    for student in made:
        student.close()

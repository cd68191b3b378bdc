"""`new`: two folders that work at once, and sentences for names that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.cli import main
from grader.verbs import new


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Make an empty course of one chapter, in a folder whose name is no plain word."""
    root = tmp_path / "Kurs für Übungen"
    for half in ("exercises", "reference"):
        (root / half / "ch2_tensor_parallel").mkdir(parents=True)
    return root


def test_a_new_exercise_lists_what_is_left_to_write_and_nothing_else(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mark of the pattern is one line; all that can be proved of the pattern holds."""
    assert main(["new", "my_flaw", "--chapter", "2"], course) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if ".toml:" in line or ".py:" in line or ".md:" in line
    ]
    marks = [
        path for path in new.PATTERN.rglob("*.*") for _ in range(path.read_text(encoding="utf-8").count("WRITE: "))
    ]
    assert len(lines) == len(marks)
    assert all(": left to write: " in line for line in lines)


def test_a_new_exercise_can_be_graded_and_repaired(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its starter fails at the second check, and its reference repairs it."""
    new.begin(course, "my_flaw", 2, "A flaw of mine")
    (exercise,) = catalog.load_course(course)
    assert main(["check", "my_flaw"], course) == 1
    assert "that is the sum of the values" in capsys.readouterr().out
    exercise.starter_path.write_bytes(exercise.reference_path.read_bytes())
    assert main(["check", "my_flaw"], course) == 0
    assert exercise.title == "A flaw of mine"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["random", "--chapter", "2"], "`random` is the name of a module"),
        (["numpy", "--chapter", "2"], "`numpy` is the name of a module"),
        (["class", "--chapter", "2"], "`class` is a word of the Python language"),
        (["My-Flaw", "--chapter", "2"], "`My-Flaw` is no exercise name"),
        (["../outside", "--chapter", "2"], "`../outside` is no exercise name"),
        (["my_flaw", "--chapter", "7"], "There is no chapter 7; the course has 2."),
        (["my_flaw", "--chapter", "2", "--title", "two\nlines"], "A title is one line of text"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_a_sentence(
    arguments: list[str], sentence: str, course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage is exit code 2, and nothing is written."""
    assert main(["new", *arguments], course) == 2
    assert sentence in capsys.readouterr().err
    assert not any((course / "exercises" / "ch2_tensor_parallel").iterdir())


def test_an_exercise_is_never_written_over(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A half that lies there already, even alone, is somebody's work."""
    theirs = course / "reference" / "ch2_tensor_parallel" / "my_flaw"
    theirs.mkdir()
    assert main(["new", "my_flaw", "--chapter", "2"], course) == 2
    assert "exists already" in capsys.readouterr().err
    assert not any(theirs.iterdir())


def test_exercises_of_a_chapter_keep_room_between_them(course: Path) -> None:
    """Positions go up in tens."""
    for slug in ("first_flaw", "second_flaw"):
        new.begin(course, slug, 2, "A flaw")
    assert [exercise.position for exercise in catalog.load_course(course)] == [10, 20]

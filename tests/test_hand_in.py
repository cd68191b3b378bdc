"""A student's files are found however they were handed in, and never through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_course import REPAIRED, write_exercise
from grader import catalog, cli
from grader.errors import RefusedFile, UsageError
from grader.files_in import take
from grader.hand_in import handed_in
from grader.records import Exercise


@pytest.fixture
def course(tmp_path: Path) -> tuple[Exercise, ...]:
    """Write a course of two exercises."""
    for position, slug in ((10, "add_up"), (20, "sum_up")):
        write_exercise(tmp_path / "course", slug, position)
    return catalog.load_course(tmp_path / "course")


def write(path: Path) -> None:
    """Write a repair."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(REPAIRED, encoding="utf-8")


@pytest.mark.parametrize("place", ["", "ranklings-main"])
def test_a_repository_and_an_archive_are_read_where_they_lie(
    course: tuple[Exercise, ...], tmp_path: Path, place: str
) -> None:
    file = tmp_path / "submission" / place / "exercises" / "ch1_numbers" / "add_up" / "add_up.py"
    write(file)
    with handed_in(course, tmp_path / "submission") as (add_up, sum_up):
        assert add_up.starter_path == file
        with pytest.raises(RefusedFile, match=r"sum_up\.py"):
            take(sum_up.student_dir, sum_up.starter_path.name)


def test_loose_files_are_laid_out_where_others_find_them(course: tuple[Exercise, ...], tmp_path: Path) -> None:
    """In copies, which go again; a link among them is none of the student's files."""
    write(tmp_path / "submission" / "add_up.py")
    (tmp_path / "submission" / "sum_up.py").symlink_to(tmp_path / "submission" / "add_up.py")
    with handed_in(course, tmp_path / "submission") as (add_up, sum_up):
        assert take(add_up.student_dir, "add_up.py").decode() == REPAIRED
        assert add_up.student_dir.parts[-3:] == ("exercises", "ch1_numbers", "add_up")
        with pytest.raises(RefusedFile, match=r"The file sum_up\.py is missing"):
            take(sum_up.student_dir, "sum_up.py")
    assert not add_up.student_dir.exists()


@pytest.mark.parametrize("link", ["exercises", "exercises/ch1_numbers", "exercises/ch1_numbers/add_up"])
def test_no_link_on_the_way_is_followed(course: tuple[Exercise, ...], tmp_path: Path, link: str) -> None:
    """The file behind it exists and is right, and is refused all the same."""
    rest = Path("exercises/ch1_numbers/add_up").relative_to(link)
    write(tmp_path / "elsewhere" / rest / "add_up.py")
    (tmp_path / "submission" / link).parent.mkdir(parents=True)
    (tmp_path / "submission" / link).symlink_to(tmp_path / "elsewhere")
    with (
        handed_in(course, tmp_path / "submission") as (exercise, _),
        pytest.raises(RefusedFile, match="is a link or no folder at all"),
    ):
        take(exercise.student_dir, exercise.starter_path.name)


def test_a_folder_that_is_not_there_is_a_sentence(course: tuple[Exercise, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"), handed_in(course, tmp_path / "nowhere"):
        pass


def test_a_submission_is_checked_and_left_as_it_was(
    course: tuple[Exercise, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither there nor in the course is a note of it, and old notes there say nothing."""
    write(tmp_path / "submission" / "add_up.py")
    (tmp_path / "submission" / "notes.jsonl").write_text("what a student may write\n", encoding="utf-8")
    root = course[0].student_dir.parents[2]
    assert cli.main(["check", "--all", "--submission", str(tmp_path / "submission")], root) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert "✓ add_up" in said.out
    assert "The file sum_up.py is missing" in said.out
    assert sorted(path.name for path in (tmp_path / "submission").iterdir()) == ["add_up.py", "notes.jsonl"]
    assert not list(root.rglob("notes.jsonl"))

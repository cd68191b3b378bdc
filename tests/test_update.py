"""A new version of the course comes into a student's repository, and their work stays as it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from fake_course import CHECKS, REPAIRED, STARTER, write_exercise
from grader import cli
from grader.release.members import students_copy
from released import files_of, grader_in, release

CHAPTER = Path("exercises", "ch1_numbers")
CLEARER = STARTER.replace("Add two numbers", "Add two numbers, the second one too")
GIT = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write the first version of a course: two exercises."""
    root = tmp_path / "instructor"
    for position, slug in ((10, "add_up"), (20, "sum_up")):
        folder = write_exercise(root, slug, position)
        (folder / "README.md").write_text("# The first words\n", encoding="utf-8")
    return root


@pytest.fixture
def copy(course: Path, tmp_path: Path) -> Path:
    """Write a student's repository, with all that was released committed."""
    folder = release(course, tmp_path / "student")
    commit(folder, "What I received")
    return folder


def commit(folder: Path, words: str) -> None:
    """Commit whatever there is."""
    for command in (["add", "-A"], ["commit", "-qm", words]):
        subprocess.run([*GIT, *command], cwd=folder, check=True)


def update(course: Path, copy: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Bring the course's new version into the repository and return the sentences."""
    capsys.readouterr()
    assert cli.main(["release", "--update", str(copy)], course) == 0
    return capsys.readouterr().out.splitlines()


def starter(root: Path, slug: str) -> Path:
    """Return the file that a student edits."""
    return root / CHAPTER / slug / f"{slug}.py"


def test_an_untouched_copy_becomes_the_new_release(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File for file, what went is gone; a second time there is nothing to do."""
    write_exercise(course, "more", 30)
    for half in ("exercises", "reference"):
        (course / half / "ch1_numbers" / "sum_up").rename(course / half / "gone")
    starter(course, "add_up").write_text(CLEARER, encoding="utf-8")
    update(course, copy, capsys)
    assert files_of(copy) == students_copy(course)
    assert not (copy / CHAPTER / "sum_up").exists()
    assert update(course, copy, capsys)[0].startswith("0 files written, 0 removed.")


def test_repairs_and_notes_stay_and_new_checks_judge_them(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starter(copy, "add_up").write_text(REPAIRED, encoding="utf-8")
    grader_in(copy, "check", "add_up")
    notes = (copy / CHAPTER / "add_up" / "notes.jsonl").read_bytes()
    (copy / "my thoughts.md").write_text("Mine.\n", encoding="utf-8")
    checks = course / "reference" / "ch1_numbers" / "add_up" / "checks.py"
    checks.write_text(CHECKS.replace("5, 2).value, 7", "5, 2).value, 8"), encoding="utf-8")
    (course / CHAPTER / "add_up" / "README.md").write_text("# Better words\n", encoding="utf-8")
    assert len(update(course, copy, capsys)) == 2
    assert starter(copy, "add_up").read_text(encoding="utf-8") == REPAIRED
    assert (copy / CHAPTER / "add_up" / "notes.jsonl").read_bytes() == notes
    assert (copy / "my thoughts.md").exists()
    assert (copy / CHAPTER / "add_up" / "README.md").read_text(encoding="utf-8") == "# Better words\n"
    assert "check 3 of 3" in grader_in(copy, "check", "add_up").stdout


def test_an_update_merges_with_work_that_went_on_meanwhile(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The instructor updates what was pushed, the student repairs on: git puts both together without a word."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", copy, clone], check=True)
    (course / CHAPTER / "add_up" / "README.md").write_text("# Better words\n", encoding="utf-8")
    write_exercise(course, "more", 30)
    update(course, clone, capsys)
    commit(clone, "A new version of the course")
    starter(copy, "add_up").write_text(REPAIRED, encoding="utf-8")
    commit(copy, "A repair")
    subprocess.run([*GIT, "pull", "-q", "--no-rebase", "--no-edit", clone, "HEAD"], cwd=copy, check=True)
    assert starter(copy, "add_up").read_text(encoding="utf-8") == REPAIRED
    assert starter(copy, "more").exists()


def test_another_starter_does_not_replace_a_repair(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starter(copy, "add_up").write_text(REPAIRED, encoding="utf-8")
    starter(course, "add_up").write_text(CLEARER, encoding="utf-8")
    sentence, *_ = update(course, copy, capsys)
    assert sentence == (
        "The starter of add_up is another one now. Your exercises/ch1_numbers/add_up/add_up.py is kept; "
        "to begin anew: nox -s reset -- add_up"
    )
    assert starter(copy, "add_up").read_text(encoding="utf-8") == REPAIRED


def test_a_starter_that_a_student_deleted_or_renamed_is_named(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starter(copy, "add_up").unlink()
    starter(copy, "sum_up").rename(copy / CHAPTER / "sum_up" / "mine.py")
    deleted, renamed, *_ = update(course, copy, capsys)
    assert deleted.startswith("exercises/ch1_numbers/add_up/add_up.py is missing. The new starter is not put there:")
    assert renamed.startswith("exercises/ch1_numbers/sum_up/sum_up.py is missing; mine.py lies there, perhaps renamed.")
    assert not starter(copy, "add_up").exists()


def test_an_exercise_that_the_course_renamed_is_named(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    starter(copy, "sum_up").write_text(REPAIRED, encoding="utf-8")
    for half in ("exercises", "reference"):
        folder = course / half / "ch1_numbers"
        (folder / "sum_up").rename(folder / "sum_it_up")
        (folder / "sum_it_up" / "sum_up.py").rename(folder / "sum_it_up" / "sum_it_up.py")
    (sentence, *_) = update(course, copy, capsys)
    assert sentence == (
        "sum_up is no longer in the course; it seems to be sum_it_up now, in "
        "exercises/ch1_numbers/sum_it_up/sum_it_up.py. Your exercises/ch1_numbers/sum_up/sum_up.py is kept."
    )
    assert starter(copy, "sum_up").read_text(encoding="utf-8") == REPAIRED


def test_what_a_student_changed_of_the_courses_files_is_kept_beside(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "README.md").write_text("Mine.\n", encoding="utf-8")
    (copy / "noxfile.py").unlink()
    (sentence, *_) = update(course, copy, capsys)
    assert (
        sentence
        == "README.md belongs to the course, and is the new one. Yours, which you changed, is now README.md.mine."
    )
    assert (copy / "README.md.mine").read_text(encoding="utf-8") == "Mine.\n"
    assert (copy / "noxfile.py").exists()


def test_nothing_outside_the_repository_is_reached(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A student's link and a student's manifest lead nowhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious", encoding="utf-8")
    manifest = json.loads((copy / "release.json").read_text(encoding="utf-8"))
    names = ["../outside/precious", str(outside / "precious"), ".git/config", "grader/../../outside/precious"]
    known = [hashlib.sha256((copy / name).read_bytes()).hexdigest() for name in names]
    manifest["files"] |= dict(zip(names, known, strict=True))
    (copy / "release.json").write_text(json.dumps(manifest), encoding="utf-8")
    (copy / "README.md").unlink()
    (copy / "README.md").symlink_to(outside / "precious")
    update(course, copy, capsys)
    assert (outside / "precious").read_text(encoding="utf-8") == "precious"
    assert (copy / ".git" / "config").exists()
    assert not (copy / "README.md").is_symlink()
    (copy / "grader").rename(copy / "old")
    (copy / "grader").symlink_to(outside)
    assert cli.main(["release", "--update", str(copy)], course) == 2
    assert "grader is a link or a file, where the course has a folder." in capsys.readouterr().err
    assert [path.name for path in outside.iterdir()] == ["precious"]


def test_a_folder_that_is_no_students_copy_is_a_sentence(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["release", "--update", str(tmp_path)], course) == 2
    assert f"{tmp_path} is no students' copy: it has no readable release.json." in capsys.readouterr().err

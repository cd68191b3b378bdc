"""An exercise may use the repairs of earlier ones: these come first, and it imports them and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fake_class import grade, out_of
from fake_course import REPAIRED, repair, write_exercise
from grader import cli


def test_an_exercise_imports_the_students_own_repairs_of_what_it_uses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no other file of theirs."""
    repair(write_exercise(tmp_path, "add_up"))
    student = write_exercise(tmp_path, "use_it", 20, more='uses = ["add_up"]\n')
    (student / "use_it.py").write_text("from add_up import add\n", encoding="utf-8")
    assert cli.main(["check"], tmp_path) == 0
    (student / "use_it.py").write_text("from add_up import add\nimport other\n", encoding="utf-8")
    (student / "other.py").write_text("", encoding="utf-8")
    capsys.readouterr()
    assert cli.main(["check", "use_it"], tmp_path) == 1
    assert "No module named 'other'" in capsys.readouterr().out


def test_what_an_exercise_uses_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = write_exercise(tmp_path, "add_up", 10)
    repair(write_exercise(tmp_path, "use_it", 20, more='uses = ["add_up"]\n'))
    assert cli.main(["check", "use_it"], tmp_path) == 1
    said = capsys.readouterr().out
    assert said.startswith("· use_it   not run")
    assert "Repair add_up first, which this exercise uses.\n  nox -s check -- add_up" in said
    repair(used)
    assert cli.main(["check", "use_it"], tmp_path) == 0


def test_a_class_is_graded_with_each_students_own_repairs(tmp_path: Path) -> None:
    """A repair of what is used counts as its author wrote it, and nobody is graded with somebody else's."""
    course, folder = tmp_path / "course", tmp_path / "class"
    write_exercise(course, "add_up")
    write_exercise(course, "use_it", 20, more='uses = ["add_up"]\n')
    uses = "from add_up import add, named\n"
    programs = {
        "ada": {"add_up": REPAIRED + "\nnamed = 1\n", "use_it": uses},
        "bob": {"add_up": REPAIRED, "use_it": uses},  # whose own repair has no such name
        "cem": {"use_it": uses},
    }
    for student, sources in programs.items():
        for slug in ("add_up", "use_it"):
            home = folder / student / "exercises" / "ch1_numbers" / slug
            home.mkdir(parents=True)
            if slug in sources:
                (home / f"{slug}.py").write_text(sources[slug], encoding="utf-8")
    shutil.copytree(
        Path(__file__).parents[1] / "grader", course / "grader", ignore=shutil.ignore_patterns("__pycache__")
    )
    done = grade(course, folder)
    assert done.returncode == 0, done.stderr
    students = json.loads((out_of(folder) / "grades.json").read_text(encoding="utf-8"))["students"]
    found = {each["student"]: [exercise["outcome"] for exercise in each["exercises"]] for each in students}
    assert found == {"ada": ["passed", "passed"], "bob": ["passed", "failed"], "cem": ["failed", "not_run"]}

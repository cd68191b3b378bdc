"""An exercise may use the repairs of earlier ones: these come first, and it imports them and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_course import repair, write_exercise
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

"""Every exercise folder keeps the rules that can be read from its files; `nox -s audit` proves what takes runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import catalog
from grader.audit.folders import course_is_in_order
from grader.audit.prove import faults_on_disk

ROOT = catalog.find_root()
FILES = sorted((ROOT / "exercises").glob("ch*_*/*/exercise.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_an_exercise_keeps_the_rules(file: Path) -> None:
    """One line for each problem, as `audit` prints it."""
    problems = faults_on_disk(catalog.load_exercise(ROOT, file), ROOT)
    assert not problems, "\n".join(problem.shown(ROOT) for problem in problems)


def test_the_course_is_in_order() -> None:
    """Both halves have the same folders, no two exercises one place, and nothing lies about."""
    problems = list(course_is_in_order(ROOT))
    assert not problems, "\n".join(problem.shown(ROOT) for problem in problems)
    assert len(catalog.load_course(ROOT)) == len(FILES)

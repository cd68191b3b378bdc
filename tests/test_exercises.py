"""Every exercise folder keeps the rules that can be read from its files; `nox -s audit` proves what takes runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader import catalog
from grader.audit.folders import course_is_in_order
from grader.audit.prove import faults_on_disk

ROOT = catalog.find_root()
CHECK = re.compile(r"`(check_\w+)`")
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


def test_what_a_rank_says_of_itself_is_listed_where_its_worth_is_explained() -> None:
    """SECURITY.md names every check that deliberate deceit could pass, and no other."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    listed = {
        (line.split(":")[0].removeprefix("- "), name) for line in text.split("\n  ") for name in CHECK.findall(line)
    }
    observed = {
        (exercise.slug, promise.name)
        for exercise in catalog.load_course(ROOT)
        for promise in catalog.promises(exercise)
        if promise.judged_by == "observation"
    }
    assert listed == observed

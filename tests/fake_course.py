"""Write small courses of real files into a temporary folder."""

from __future__ import annotations

from pathlib import Path

STARTER = '''"""Add two numbers."""


def add(a: float, b: float) -> float:
    return a - b


if __name__ == "__main__":
    print("add(1, 2) is", add(1, 2), "and not 3")
'''
REPAIRED = STARTER.replace("a - b", "a + b")
CHECKS = '''"""Hidden checks, in teaching order."""

from __future__ import annotations

from grader.judging import Student, assert_equal, check


@check(hints=("Zero is special.",))
def check_zero_changes_nothing(student: Student) -> None:
    """Adding zero
    changes nothing."""
    assert_equal(student.call("add", 2, 0).value, 2, "add(2, 0)")


@check(hints=("Which sign does the second number have?", "Look at the operator."), judged_by="value", guards="")
def check_two_numbers_are_added(student: Student) -> None:
    """The sum of two numbers is returned."""
    assert_equal(student.call("add", 1, 2).value, 3, "add(1, 2)")


@check(hints=("Order does not matter.",))
def check_the_order_does_not_matter(student: Student) -> None:
    """a + b is b + a."""
    assert_equal(student.call("add", 5, 2).value, 7, "add(5, 2)")
'''
MECHANISM = """mechanism = "Subtraction is not addition."
last_hint = "The operator between a and b decides."
explanation = "A minus stands where a plus belongs."
[[distractors]]
text = "Floats are inexact."
why_not = "Not by that much."
[[reading]]
title = "Arithmetic"
url = "https://example.org/arithmetic"
"""
TOML = """title = "{title}"
position = {position}
difficulty = 1
points = 2
"""


def write_exercise(root: Path, slug: str, position: int = 10, *, chapter: str = "ch1_numbers", more: str = "") -> Path:
    """Write both halves of one exercise and return the student's folder."""
    student, reference = root / "exercises" / chapter / slug, root / "reference" / chapter / slug
    student.mkdir(parents=True)
    reference.mkdir(parents=True)
    title = slug.replace("_", " ").capitalize()
    (student / "exercise.toml").write_text(TOML.format(title=title, position=position) + more, encoding="utf-8")
    (student / f"{slug}.py").write_text(STARTER, encoding="utf-8")
    (reference / f"{slug}.py").write_text(REPAIRED, encoding="utf-8")
    (reference / "checks.py").write_text(CHECKS, encoding="utf-8")
    (reference / "mechanism.toml").write_text(MECHANISM, encoding="utf-8")
    return student


def repair(student: Path) -> None:
    """Put the right program where the student's file is."""
    (student / f"{student.name}.py").write_text(REPAIRED, encoding="utf-8")

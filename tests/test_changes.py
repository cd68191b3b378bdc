"""A repair is counted in lines of code; words and empty lines cost nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from grader.changes import changed_lines, changed_lines_of_reference, difference, pristine
from grader.records import Exercise

STARTER = (
    '"""Say what."""\n\ndef f(x):\n    """Add."""\n    y = x + 1\n    return y\n\ndef example():\n    print(f(1))\n'
)


def test_comments_and_empty_lines_do_not_count() -> None:
    """Three lines touched, one of them code."""
    repaired = STARTER.replace("    y = x + 1\n", "\n    # a thought\n    y = x + 2\n")
    assert changed_lines(STARTER, repaired) == 1
    assert changed_lines(STARTER, STARTER) == 0


def test_an_added_and_a_removed_line_count_once_each() -> None:
    """A replaced block counts as long as its longer side."""
    assert changed_lines(STARTER, STARTER.replace("    return y\n", "    y *= 2\n    return y\n")) == 1
    assert changed_lines(STARTER, STARTER.replace("    print(f(1))\n", "")) == 1


def test_the_reference_is_compared_in_what_both_files_define() -> None:
    """Its docstrings are longer, and it needs no example."""
    reference = '"""Say more."""\n\ndef f(x):\n    """Add, and say why."""\n    y = x + 2\n    return y\n'
    assert changed_lines_of_reference(STARTER, reference) == 1


def test_the_pristine_starter_comes_from_the_last_commit(tmp_path: Path) -> None:
    """Also in a folder with spaces; outside a repository nothing is known."""
    folder, reference = (tmp_path / "a course" / half / "ch1_numbers" / "f" for half in ("exercises", "reference"))
    folder.mkdir(parents=True)
    exercise = Exercise("f", 1, "F", 10, 1, 1, folder, reference)
    assert pristine(exercise) is None
    exercise.starter_path.write_text(STARTER)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *command], check=True)
    exercise.starter_path.write_text("changed\n")
    assert pristine(exercise) == STARTER


def test_the_difference_leaves_the_example_out() -> None:
    """And nothing where a file cannot be read as Python."""
    reference = "def f():\n    return 1\n"
    example = "\n\nif __name__ == '__main__':\n    print(f())\n"
    assert difference(reference + example, reference) == []
    assert "-    return 2" in difference(f"def f():\n    return 2\n{example}", reference)
    assert "-def f(:" in difference("def f(:\n", reference)

"""The course is what its folders say, and a broken one is one line: `path:line: fact`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_course import CHECKS, write_exercise
from grader import catalog
from grader.errors import BrokenExercise, UsageError
from grader.records import Limits


def broken(root: Path) -> str:
    """Return what is said of the course."""
    with pytest.raises(BrokenExercise) as caught:
        catalog.load_course(root)
    return str(caught.value)


def test_the_course_goes_by_chapter_then_by_position(tmp_path: Path) -> None:
    """Never by name: chapter 10 comes after chapter 2."""
    write_exercise(tmp_path, "last", 10, chapter="ch10_late")
    write_exercise(tmp_path, "alpha", 20)
    write_exercise(tmp_path, "zulu", 10)
    write_exercise(tmp_path, "middle", 10, chapter="ch2_more")
    (tmp_path / "exercises" / "ch1_numbers" / "__pycache__").mkdir()
    (tmp_path / "exercises" / "notes").mkdir()
    assert [exercise.slug for exercise in catalog.load_course(tmp_path)] == ["zulu", "alpha", "middle", "last"]


def test_an_exercise_is_what_its_file_says(tmp_path: Path) -> None:
    more = 'sources = ["https://example.org"]\n[limits]\ntimeout_s = 3\nunix_sockets = true\n'
    more += '[predict]\nquestion = "How much?"\nfunction = "f"\ncontrol = "n"\nvalues = [1, 2.5]\n'
    more += 'quantity = "time"\nunit = "s"\ntransport = "simulated"\n'
    student = write_exercise(tmp_path, "add_up", more=more)
    (exercise,) = catalog.load_course(tmp_path)
    assert (exercise.chapter, exercise.title, exercise.points, exercise.difficulty) == (1, "Add up", 2, 1)
    assert exercise.limits == Limits(timeout_s=3.0, unix_sockets=True)
    assert exercise.sources == ("https://example.org",)
    assert exercise.experiment is not None
    assert (exercise.experiment.values, exercise.experiment.transport) == ((1, 2.5), "simulated")
    assert exercise.starter_path == student / "add_up.py"


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("points = 2", "", "exercise.toml:1: `points` is missing."),
        ("points = 2", 'points = "2"', "exercise.toml:4: `points` is no whole number."),
        ("points = 2", "points = 0", "exercise.toml:4: `points` is a positive number."),
        ("points = 2", "points = true", "exercise.toml:4: `points` is no whole number."),
        ("difficulty = 1", "difficulty = 6", "exercise.toml:3: `difficulty` goes from 1 to 5."),
        ('title = "Add up"', 'title = ""', "exercise.toml:1: `title` is empty."),
        ("points = 2", "points = 2\npionts = 3", "`pionts` is not known here. Did you mean `points`?"),
        (
            "points = 2",
            "points = 2\n[limits]\ntimeout = 3",
            "6: `timeout` is not known here. Did you mean `timeout_s`?",
        ),
        ("points = 2", 'points = 2\n[limits]\ntimeout_s = "3"', "6: `timeout_s` is no number."),
        ("points = 2", "points = = 2", "exercise.toml:4: is not TOML: Invalid value"),
        ("points = 2", "points = 2\nuses = 3", "exercise.toml:5: `uses` is no list."),
        ("points = 2", 'points = 2\nuses = ["add_up"]', "`uses` names `add_up`, which is no earlier exercise."),
        ("points = 2", "points = 2\n[predict]\nvalues = []", "`question` is missing."),
    ],
)
def test_a_broken_file_is_named_with_line_and_fact(tmp_path: Path, old: str, new: str, fact: str) -> None:
    path = write_exercise(tmp_path, "add_up") / "exercise.toml"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    said = broken(tmp_path)
    assert said.startswith("exercises/ch1_numbers/add_up/exercise.toml:")
    assert fact in said


@pytest.mark.parametrize("slug", ["random", "torch", "lambda", "Add", "add-up", "add__up", "checks"])
def test_a_name_that_python_or_the_grader_needs_is_refused(tmp_path: Path, slug: str) -> None:
    write_exercise(tmp_path, slug)
    assert f"`{slug}` cannot name an exercise" in broken(tmp_path)


def test_two_exercises_never_share_a_position_or_a_name(tmp_path: Path) -> None:
    write_exercise(tmp_path, "one", 10)
    write_exercise(tmp_path, "two", 10)
    assert "two/exercise.toml:1: has the position of one." in broken(tmp_path)
    write_exercise(tmp_path / "other", "one", 10)
    write_exercise(tmp_path / "other", "one", 10, chapter="ch2_more")
    assert "has the name of an exercise in chapter 1." in broken(tmp_path / "other")


def test_what_a_submission_imports_anyway_is_known_before(tmp_path: Path) -> None:
    """From the reference and the harness, of numpy and torch only; torch.distributed comes with torch."""
    write_exercise(tmp_path, "plain", 10)
    write_exercise(tmp_path, "heavy", 20)
    reference = tmp_path / "reference" / "ch1_numbers" / "heavy"
    (reference / "heavy.py").write_text("import os, torch\nfrom torch.nn import functional\n", encoding="utf-8")
    (reference / "harness.py").write_text("import numpy as np\n", encoding="utf-8")
    plain, heavy = catalog.load_course(tmp_path)
    assert plain.preload == ()
    assert heavy.preload == ("numpy", "torch", "torch.distributed", "torch.nn")


def test_names_are_found_in_course_order_and_as_paths(tmp_path: Path) -> None:
    """A shell completes `exercises/ch1_numbers/two/two.py`; that names the exercise too."""
    write_exercise(tmp_path, "one", 10)
    write_exercise(tmp_path, "two", 20)
    course = catalog.load_course(tmp_path)
    chosen = catalog.select(course, ["exercises/ch1_numbers/two/two.py", "one", "one"])
    assert [exercise.slug for exercise in chosen] == ["one", "two"]


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write_exercise(tmp_path, "mean_gradients")
    with pytest.raises(UsageError, match=r"no exercise `mean_gradient`\. Did you mean `mean_gradients`\?"):
        catalog.select(catalog.load_course(tmp_path), ["mean_gradient"])


def test_promises_are_read_without_running_the_checks(tmp_path: Path) -> None:
    write_exercise(tmp_path, "add_up")
    (exercise,) = catalog.load_course(tmp_path)
    exercise.checks_path.write_text(CHECKS + "\nraise SystemExit('imported')\n", encoding="utf-8")
    zero, added, _ = catalog.promises(exercise)
    assert (zero.sentence, zero.hints) == ("Adding zero changes nothing.", ("Zero is special.",))
    assert (added.name, added.judged_by) == ("check_two_numbers_are_added", "value")
    assert CHECKS.splitlines()[added.line - 1].startswith("def check_two_numbers_are_added")


@pytest.mark.parametrize(
    ("checks", "fact"),
    [
        ("", "checks.py:1: has no check: a function `check_...`."),
        ("def check_a(): pass", "checks.py:1: check_a: the docstring is missing, which is the promise to the student."),
        ('def check_a():\n    "A."', "checks.py:1: check_a is not decorated with @check(hints=...)."),
        ('@check(hints=HINTS)\ndef check_a():\n    "A."', "checks.py:1: check_a: @check(...) takes literals only."),
        ('@check(hints="one")\ndef check_a():\n    "A."', "checks.py:2: check_a: `hints` is no tuple of texts."),
        (
            '@check(hints=(), judged_by="me")\ndef check_a():\n    "A."',
            "`judged_by` is one of value, network, observation.",
        ),
        ('@check(hints=())\ndef check_a():\n    "A."\n' * 2, "checks.py:5: check_a stands here twice."),
        ("def check_a(:", "checks.py:1: is not Python: invalid syntax."),
    ],
)
def test_broken_checks_are_named_with_line_and_fact(tmp_path: Path, checks: str, fact: str) -> None:
    write_exercise(tmp_path, "add_up")
    (exercise,) = catalog.load_course(tmp_path)
    exercise.checks_path.write_text(checks, encoding="utf-8")
    with pytest.raises(BrokenExercise) as caught:
        catalog.promises(exercise)
    assert str(caught.value).startswith("reference/ch1_numbers/add_up/checks.py:")
    assert fact in str(caught.value)


def test_a_missing_file_of_ours_is_a_broken_exercise(tmp_path: Path) -> None:
    write_exercise(tmp_path, "add_up")
    (exercise,) = catalog.load_course(tmp_path)
    (exercise.reference_dir / "mechanism.toml").unlink()
    with pytest.raises(BrokenExercise, match=r"^reference/ch1_numbers/add_up/mechanism\.toml:1: is missing\.$"):
        catalog.mechanism(exercise)


def test_the_mechanism_comes_with_distractors_and_reading(tmp_path: Path) -> None:
    write_exercise(tmp_path, "add_up")
    (exercise,) = catalog.load_course(tmp_path)
    mechanism = catalog.mechanism(exercise)
    assert mechanism.distractors == (("Floats are inexact.", "Not by that much."),)
    assert mechanism.reading == (("Arithmetic", "https://example.org/arithmetic"),)
    assert mechanism.last_hint == "The operator between a and b decides."


def test_an_exercise_draws_the_same_alone_and_among_others() -> None:
    assert catalog.exercise_seed("add_up", 0) == catalog.exercise_seed("add_up", 0)
    assert len({catalog.exercise_seed(slug, seed) for slug in ("one", "two") for seed in (0, 1)}) == 4

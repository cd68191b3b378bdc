"""An experiment runs with a student's own code, in ranks; whatever that code does is an observation."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fake_course import write_exercise
from grader import catalog, experiments, notes, predictions
from grader.errors import BrokenExercise
from grader.launch import Launcher
from grader.records import Exercise

PREDICT = """[predict]
question = "What is 1 + n?"
function = "one_more"
control = "n"
values = [1, 2, 3]
quantity = "sum"
unit = "units"
"""
HARNESS = "def one_more(submission, n):\n    return submission.add(1, n)\n"


@pytest.fixture
def exercise(tmp_path: Path) -> Exercise:
    """Return an exercise with an experiment."""
    write_exercise(tmp_path, "add_up", more=PREDICT)
    (tmp_path / "reference" / "ch1_numbers" / "add_up" / "harness.py").write_text(HARNESS, encoding="utf-8")
    return catalog.load_course(tmp_path)[0]


def results(exercise: Exercise, source: str, launcher: Launcher) -> list[float | None]:
    """Return what the experiment gives."""
    return [each.result for each in experiments.run(exercise, source.encode(), launcher, 7)]


def test_each_value_of_the_control_gives_a_result(exercise: Exercise, launcher: Launcher) -> None:
    assert results(exercise, "def add(a, b):\n    return a + b\n", launcher) == [2, 3, 4]


def test_a_failure_is_an_observation_and_the_rest_goes_on(exercise: Exercise, launcher: Launcher) -> None:
    source = "def add(a, b):\n    if b == 2:\n        raise ValueError('two')\n    return a + b\n"
    seen = experiments.run(exercise, source.encode(), launcher, 7)
    assert [each.result for each in seen] == [2, None, 4]
    assert "ValueError: two" in seen[1].failure


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("__import__('numpy').float32(2)", 2.0),
        ("10**400", None),
        ("float('nan')", math.nan),
        ("'2'", None),
        ("True", None),
    ],
)
def test_only_a_number_is_a_result(
    exercise: Exercise, launcher: Launcher, expression: str, result: float | None
) -> None:
    one = replace(exercise, experiment=replace(experiments.experiment_of(exercise), values=(1,)))
    (found,) = results(one, f"def add(a, b):\n    return {expression}\n", launcher)
    assert found == pytest.approx(result, nan_ok=True)


def test_the_ranks_of_an_experiment_are_joined(exercise: Exercise, launcher: Launcher) -> None:
    harness = "import torch, torch.distributed as dist\n\n\ndef one_more(submission, n):\n    x = torch.ones(1)\n"
    harness += "    dist.all_reduce(x)\n    return submission.add(float(x), dist.get_world_size() - n)\n"
    exercise.harness_path.write_text(harness, encoding="utf-8")
    joined = replace(experiments.experiment_of(exercise), transport="simulated", control="world_size")
    exercise = replace(exercise, experiment=joined, preload=("torch", "torch.distributed"))
    assert results(exercise, "def add(a, b):\n    return a + b\n", launcher) == [1, 2, 3]


def test_what_is_no_experiment_is_the_exercises_fault(exercise: Exercise, launcher: Launcher) -> None:
    with pytest.raises(BrokenExercise, match=r"no \[predict\]"):
        experiments.experiment_of(replace(exercise, experiment=None))
    joined = replace(experiments.experiment_of(exercise), transport="simulated")
    with pytest.raises(BrokenExercise, match="the control `world_size`"):
        results(replace(exercise, experiment=joined), "", launcher)


def test_notes_of_an_experiment_come_back_as_its_story(exercise: Exercise) -> None:
    """Each version of the code begins a round of its own."""
    assert experiments.note_prediction(exercise, "2, 3, 4", "one more each", b"v1") is None
    seen = predictions.Observation(1.0, math.inf), predictions.Observation(2.0, None, "It hangs.")
    assert experiments.note_result(exercise, seen, b"v1") is None
    experiments.note_prediction(exercise, "grows", "", b"v2")
    first, second = predictions.rounds(notes.read(exercise.student_dir)[0])
    assert (first.guess, first.observations, second.guess) == ("2, 3, 4", seen, "grows")

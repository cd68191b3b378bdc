"""Run an exercise's experiment with a student's own code: the same sandboxed ranks that run the checks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from grader import catalog, judging, notes, predictions
from grader.errors import BrokenExercise, StudentFailure
from grader.launch import Launcher
from grader.records import Exercise, Experiment, Observation, Tensor
from grader.student import Progress, Student, tell_nobody

MAX_RANKS = 16
PATIENCE = 3  # times the checks' limit: nobody is graded here, and a busy machine must not look like a result


def experiment_of(exercise: Exercise) -> Experiment:
    """Return the exercise's experiment; raise BrokenExercise if it has none."""
    if exercise.experiment is None:
        raise BrokenExercise(
            f"exercises/{exercise.student_dir.parent.name}/{exercise.slug}/exercise.toml:1: no [predict]."
        )
    return exercise.experiment


def run(
    exercise: Exercise,
    source: bytes,
    launcher: Launcher,
    seed: int,
    progress: Progress = tell_nobody,
    used: Mapping[str, bytes] | None = None,
) -> tuple[Observation, ...]:
    """Return what a submission's source gives for each value of the control; a failure is an observation, too.

    `used` holds the sources of the exercises that this one imports, by slug.
    """
    experiment, used = experiment_of(exercise), used or {}
    texts = [each.decode("utf-8", "replace") for each in (source, *used.values())]
    preload = {*exercise.preload, *catalog.imports_of(*texts)}
    harness = exercise.harness_path.read_bytes() if exercise.harness_path.exists() else None
    prepared = replace(exercise, preload=tuple(sorted(preload)))
    observations = []
    for value in experiment.values:
        progress(f"{experiment.control} = {value:g}")
        student = Student(prepared, source, harness, launcher, seed, used=used)
        observations.append(_observe(student, experiment, value))
    return tuple(observations)


def code_of(source: bytes) -> str:
    """Return a short name of one version of a student's code, by which notes tell versions apart."""
    return hashlib.sha256(source).hexdigest()[:16]


def note_prediction(exercise: Exercise, guess: str, reason: str, source: bytes) -> str | None:
    """Keep a prediction; return a sentence if it could not be kept."""
    return notes.append(exercise.student_dir, "prediction", guess=guess, reason=reason, code=code_of(source))


def note_result(exercise: Exercise, observations: tuple[Observation, ...], source: bytes) -> str | None:
    """Keep what the experiment gave; return a sentence if it could not be kept."""
    results = predictions.as_results(observations)
    return notes.append(exercise.student_dir, "result", results=results, code=code_of(source))


def _observe(student: Student, experiment: Experiment, value: float) -> Observation:
    function, limit_s = f"harness.{experiment.function}", PATIENCE * student.exercise.limits.timeout_s
    try:
        if experiment.transport == "none":
            answer = student.call(function, value, timeout_s=limit_s).value
        else:
            join = student.simulated if experiment.transport == "simulated" else student.ranks
            per_rank: list[tuple[Any, ...]] = [(value,)] * _world_size(student, experiment, value)
            answer = join(function, per_rank, timeout_s=limit_s)[0].value
        return _observation(value, answer)
    except StudentFailure as failure:
        return Observation(value, None, failure.message)
    finally:
        student.close()


def _world_size(student: Student, experiment: Experiment, value: float) -> int:
    if experiment.control != "world_size" or not 1 <= value <= MAX_RANKS or value != int(value):
        raise BrokenExercise(
            f"exercises/{student.exercise.slug}/exercise.toml:1: ranks need the control `world_size`, 1 to {MAX_RANKS}."
        )
    return int(value)


def _observation(value: float, answer: Any) -> Observation:
    """Take a number, however it is wrapped."""
    array = answer.array if isinstance(answer, Tensor) else answer
    if isinstance(array, np.ndarray | np.generic) and array.size == 1 and array.dtype.kind in "iuf":
        return Observation(value, float(array.item()))
    if type(array) in {int, float}:
        with suppress(OverflowError):
            return Observation(value, float(array))
    return Observation(value, None, f"The experiment takes a number, and came out as {judging.describe(answer)}.")

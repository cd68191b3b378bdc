"""Claims about the capstone: on 1, 2 and 4 real ranks it takes the same fifty steps as one process of plain torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from grader import catalog
from grader.launch import Launcher
from grader.student import Student

ROOT = Path(__file__).parents[1]
STEPS, SEQUENCES = 50, 4


def checks() -> ModuleType:
    """Load the capstone's checks, whose model in plain torch is the oracle here, too."""
    path = next(ROOT.glob("reference/*/capstone/checks.py"))
    spec = importlib.util.spec_from_file_location("capstone_checks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def capstone(launcher: Launcher) -> Iterator[Student]:
    """Return the reference as a submission, with the references that it uses."""
    exercise = catalog.load_exercise(ROOT, next(ROOT.glob("exercises/*/capstone/exercise.toml")))
    used = {slug: path.read_bytes() for slug, path in catalog.used_paths(exercise).items()}
    student = Student(
        exercise, exercise.reference_path.read_bytes(), exercise.harness_path.read_bytes(), launcher, 1, used=used
    )
    yield student
    student.close()


def alone(module: Any, whole: dict[str, Any], rounds: list[Any]) -> tuple[list[float], dict[str, Any]]:
    """Return the losses and the last gradients of one process with all batches."""
    losses, gradients = [], {}
    for batch in rounds:
        loss, gradients = module.loss_and_gradients(whole, *module.merged(batch))
        losses.append(loss)
        whole = {name: value - module.RATE * gradients[name] for name, value in whole.items()}
    return losses, gradients


@pytest.mark.parametrize(("replicas", "tensor_size"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_fifty_steps_on_a_grid_are_those_of_one_process(capstone: Student, replicas: int, tensor_size: int) -> None:
    """Losses and gradients of all pieces on all ranks, to 1e-10."""
    module, rng = checks(), np.random.default_rng(1)
    whole = module.weights(rng)
    drawn = [module.batches(rng, 2, SEQUENCES // 2) for _ in range(2)] * (
        STEPS // 2
    )  # seen again, so there is progress
    rounds = drawn if replicas == 2 else [[module.merged(batch)] for batch in drawn]
    losses, gradients = alone(module, whole, drawn)
    assert losses[-1] < losses[0] / 2
    for result in module.take_steps(capstone, whole, rounds, tensor_size, verb="ranks"):
        np.testing.assert_allclose(result.value["losses"], losses, rtol=1e-10)
        for name, gradient in gradients.items():
            mine = module.piece(name, gradient, result.rank % tensor_size, tensor_size)
            largest = np.abs(gradient).max()
            np.testing.assert_allclose(result.value["gradients"][name].array, mine, rtol=1e-10, atol=1e-10 * largest)

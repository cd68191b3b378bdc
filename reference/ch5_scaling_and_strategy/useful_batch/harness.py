"""A toy that trains with a submission's rates, and the experiment."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


def refusal(submission: ModuleType, function: str, *arguments: Any) -> str:
    """Say how a function ended: "refused" with a ValueError, or what it answered."""
    try:
        return f"answered {getattr(submission, function)(*arguments)}"
    except ValueError:
        return "refused"


def rates(submission: ModuleType, cases: list[list[Any]]) -> list[float]:
    """Return the learning rate of each case."""
    return [submission.learning_rate(*case) for case in cases]


def distances(submission: ModuleType, batches: list[int], seed: int) -> list[float]:
    """Minimize |x|^2 / 2 from noisy gradients with each batch; return how far from the minimum 200 steps end."""
    found = []
    for batch in batches:
        rng, x = np.random.default_rng(seed), np.full(20, 1.0)
        for step in range(200):
            gradient = x + rng.normal(size=20) * (64 / batch) ** 0.5
            x = x - submission.learning_rate(0.05, 8, batch, 64, step, 20) * gradient
        found.append(float(np.linalg.norm(x)) if np.isfinite(x).all() else float("inf"))
    return found


def steps_at(submission: ModuleType, batch: float) -> int:
    """Return the steps with a batch, where 10,000 are the least and the noise scale is 64."""
    return round(submission.steps_and_examples(10_000, 640_000, batch)[0])

"""Choose a batch: measure the noise of gradients, weigh steps against samples, set the rate, share out the batch."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np


def noise_scale(small: Sequence[float], big: Sequence[float], small_batch: int, big_batch: int) -> float:
    """Return the noise scale in samples, from squared gradient norms of two sizes of batches, step by step."""
    ratios = []
    for small_square, big_square in zip(small, big, strict=True):
        variance = (small_square - big_square) * small_batch
        ratios.append(variance / big_square)
    return fmean(ratios)


def steps_and_examples(min_steps: float, min_examples: float, batch: float) -> tuple[float, float]:
    """Return how many steps and samples it takes with batches of this size."""
    return min_examples / batch, min_examples


def learning_rate(
    base_rate: float, base_batch: float, batch: float, noise: float, step: int, warmup_steps: int
) -> float:
    """Return the learning rate of a step, for a batch of another size than that for which `base_rate` is right."""
    return base_rate * batch / base_batch


def micro_batches(global_batch: int, micro_batch: int, ranks: int) -> list[int]:
    """Return how many micro-batches each rank accumulates in a step."""
    return [global_batch // (micro_batch * ranks)] * ranks


def example() -> None:
    """Minimize |x|^2 / 2 in 20 dimensions from gradients with noise, with larger and larger batches."""
    rng, noise = np.random.default_rng(0), 64
    for batch in (8, 64, 512, 4096):
        x = np.full(20, 1.0)
        for step in range(200):
            gradient = x + rng.normal(size=20) * (noise / batch) ** 0.5
            x = x - learning_rate(0.05, 8, batch, noise, step, 20) * gradient
        steps, _ = steps_and_examples(10_000, 640_000, batch)
        expected = 10_000 * (1 + noise / batch)
        print(f"batch {batch:4}   largest |x| after 200 steps {np.abs(x).max():9.3g}", end="")
        print(f"   promised {steps:8,.0f} steps, expected {expected:7,.0f}")
    print(f"micro-batches of 8 samples on 7 ranks: {micro_batches(512, 8, 7)}, expected 64 in all")


if __name__ == "__main__":
    example()

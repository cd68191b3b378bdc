"""Samples are what they are; only steps depend on the batch.

Caught by: check_steps_and_samples_are_traded
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def noise_scale(small: Sequence[float], big: Sequence[float], small_batch: int, big_batch: int) -> float:
    """Return the noise scale in samples, from squared gradient norms of two sizes of batches, step by step."""
    mean_small, mean_big = fmean(small), fmean(big)  # the estimates are linear in these, so averaging first is the same
    signal = (big_batch * mean_big - small_batch * mean_small) / (big_batch - small_batch)
    variance = (mean_small - mean_big) / (1 / small_batch - 1 / big_batch)
    if signal <= 0:
        raise ValueError("The gradient cannot be told from its noise yet. Measure more steps.")
    return variance / signal


def steps_and_examples(min_steps: float, min_examples: float, batch: float) -> tuple[float, float]:
    """Return how many steps and samples it takes with batches of this size."""
    steps = min_steps + min_examples / batch  # solves the hyperbola, with min_examples / min_steps as noise scale
    return steps, min_examples


def _best_rate(base_rate: float, base_batch: float, batch: float, noise: float) -> float:
    return base_rate * (1 + noise / base_batch) / (1 + noise / batch)


def learning_rate(
    base_rate: float, base_batch: float, batch: float, noise: float, step: int, warmup_steps: int
) -> float:
    """Return the learning rate of a step, for a batch of another size than that for which `base_rate` is right."""
    target = _best_rate(base_rate, base_batch, batch, noise)
    if step >= warmup_steps:
        return target
    return base_rate + (target - base_rate) * step / warmup_steps


def micro_batches(global_batch: int, micro_batch: int, ranks: int) -> list[int]:
    """Return how many micro-batches each rank accumulates in a step."""
    total, rest = divmod(global_batch, micro_batch)
    if rest:
        raise ValueError(f"{global_batch} samples are no multiple of {micro_batch}. Choose another micro-batch.")
    each, more = divmod(total, ranks)
    return [each + (rank < more) for rank in range(ranks)]

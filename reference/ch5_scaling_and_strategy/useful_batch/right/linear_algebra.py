"""Solves the two equations as a linear system, interpolates with numpy, splits a range."""

from __future__ import annotations

import numpy as np


def noise_scale(small, big, small_batch, big_batch):
    """Solve for (|G|², tr Σ)."""
    matrix = np.array([[1, 1 / small_batch], [1, 1 / big_batch]])
    signal, variance = np.linalg.solve(matrix, np.array([small, big])).mean(axis=1)
    if signal <= 0.0:
        raise ValueError(f"|G|² is estimated as {signal}")
    return float(variance / signal)


def steps_and_examples(min_steps, min_examples, batch):
    """S from the hyperbola with E = B S: (S - S_min)(B S - E_min) = S_min E_min, whose other root is zero."""
    roots = np.roots([batch, -(min_examples + batch * min_steps), 0.0])
    steps = float(roots.real.max())
    return steps, steps * batch


def learning_rate(base_rate, base_batch, batch, noise, step, warmup_steps):
    """Use batch / (batch + noise), which is the same factor."""

    def share(size):
        return size / (size + noise)

    own = base_rate * share(batch) / share(base_batch)
    if warmup_steps == 0:
        return own
    return float(np.interp(step, [0, warmup_steps], [base_rate, own]))


def micro_batches(global_batch, micro_batch, ranks):
    """Let numpy split."""
    if global_batch / micro_batch != global_batch // micro_batch:
        raise ValueError
    return [len(mine) for mine in np.array_split(range(global_batch // micro_batch), ranks)]

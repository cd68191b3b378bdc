"""Fills a table of numpy arrays from one stage upwards, cuts counted from the front."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    n = len(seconds)
    if n < n_stages:
        raise ValueError("more stages than pieces")
    time = np.concatenate([[0.0], np.cumsum(seconds)])
    held = np.concatenate([[0], np.cumsum(size_bytes)])
    span = np.where(held[None, :] - held[:, None] <= cap_bytes, time[None, :] - time[:, None], np.inf)
    span[np.tril_indices(n + 1)] = np.inf  # no stage is empty
    table, origin = span[0], []
    for _ in range(n_stages - 1):
        worst = np.maximum(table[:, None], span)
        origin.append(np.argmin(worst, axis=0))
        table = np.min(worst, axis=0)
    if not np.isfinite(table[n]):
        raise ValueError("does not fit")
    ends = [n]
    for came_from in reversed(origin):
        ends.append(came_from[ends[-1]])
    return np.diff([0, *reversed(ends)])[...].tolist()


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

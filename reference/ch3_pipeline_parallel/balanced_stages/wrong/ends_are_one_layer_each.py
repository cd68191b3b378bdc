"""Embedding and head are pieces like any other: equal numbers of pieces.

Caught by: check_no_other_split_is_faster
"""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    base, longer = divmod(len(seconds), n_stages)
    return [base + (1 <= stage <= longer or stage + n_stages <= longer) for stage in range(n_stages)]


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

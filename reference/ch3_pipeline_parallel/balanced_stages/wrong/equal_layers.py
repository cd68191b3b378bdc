"""All layers are alike, so equal numbers of them are equal work; the ends are small change.

Caught by: check_the_head_is_work_too
"""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    n_layers = len(seconds) - 2
    counts = [n_layers // n_stages + (stage < n_layers % n_stages) for stage in range(n_stages)]
    counts[0] += 1  # the embedding
    counts[-1] += 1  # the head
    while 0 in counts:
        counts[counts.index(0)] += 1
        counts[counts.index(max(counts))] -= 1
    return counts


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

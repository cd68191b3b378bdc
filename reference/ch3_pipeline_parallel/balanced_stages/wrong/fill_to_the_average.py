"""Fill each stage until it has its share of the time; the last one takes what is left.

Caught by: check_the_head_is_work_too
"""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    share_s = sum(seconds) / n_stages
    counts, taken_s = [0] * n_stages, 0.0
    stage = 0
    for piece, piece_s in enumerate(seconds):
        left = len(seconds) - piece
        if counts[stage] and stage < n_stages - 1 and (taken_s + piece_s > share_s or left == n_stages - 1 - stage):
            stage, taken_s = stage + 1, 0.0
        counts[stage] += 1
        taken_s += piece_s
    return counts


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

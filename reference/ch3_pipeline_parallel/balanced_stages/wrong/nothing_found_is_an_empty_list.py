"""If no split fits, return an empty one; the caller will see.

Caught by: check_what_fits_nowhere_is_refused
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    n_pieces = len(seconds)

    def stage_s(first: int, end: int) -> float:
        fits = sum(size_bytes[first:end]) <= cap_bytes
        return sum(seconds[first:end]) if fits else math.inf

    @cache
    def best(first: int, stages: int) -> tuple[float, tuple[int, ...]]:
        """Return the slowest stage's seconds and the counts if the pieces from `first` on are cut best."""
        if stages == 1:
            return stage_s(first, n_pieces), (n_pieces - first,)
        cuts = []
        for end in range(first + 1, n_pieces - stages + 2):  # a piece at least for this stage and each one after it
            rest_s, rest = best(end, stages - 1)
            cuts.append((max(stage_s(first, end), rest_s), (end - first, *rest)))
        return min(cuts, default=(math.inf, ()))

    _, counts = best(0, n_stages)
    return list(counts)


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

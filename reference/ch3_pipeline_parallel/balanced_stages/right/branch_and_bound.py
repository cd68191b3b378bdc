"""Cuts by depth-first search and gives up a branch as soon as it cannot be faster than the best found."""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    best_counts: tuple[int, ...] = ()
    best_s = float("inf")
    seen: dict[tuple[int, int], float] = {}

    def search(first: int, counts: tuple[int, ...], slowest_s: float) -> None:
        nonlocal best_counts, best_s
        left = n_stages - len(counts)
        if slowest_s >= min(best_s, seen.get((first, left), float("inf"))):
            return
        seen[first, left] = slowest_s
        if left == 0:
            if first == len(seconds):
                best_s, best_counts = slowest_s, counts
            return
        for end in range(first + 1, len(seconds) + 1):
            if sum(size_bytes[first:end]) > cap_bytes:
                break
            search(end, (*counts, end - first), max(slowest_s, sum(seconds[first:end])))

    search(0, (), 0.0)
    if not best_counts:
        raise ValueError("no split")
    return list(best_counts)


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

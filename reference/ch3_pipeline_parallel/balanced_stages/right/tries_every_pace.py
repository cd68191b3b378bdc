"""Searches for the shortest pace at which filling from the front needs no more stages than there are."""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back, so that the slowest stage is fastest."""
    n_pieces = len(seconds)
    paces = sorted({sum(seconds[i:j]) for i in range(n_pieces) for j in range(i + 1, n_pieces + 1)})
    low, high = 0, len(paces)
    while low < high:
        middle = (low + high) // 2
        if _fill(seconds, size_bytes, paces[middle], cap_bytes, n_stages) is None:
            low = middle + 1
        else:
            high = middle
    if low == len(paces):
        raise ValueError("nothing fits")
    counts = _fill(seconds, size_bytes, paces[low], cap_bytes, n_stages)
    while len(counts) < n_stages:  # a longer stage in two is no slower
        longest = counts.index(max(counts))
        counts[longest : longest + 1] = [counts[longest] - 1, 1]
    return counts


def _fill(
    seconds: Sequence[float], size_bytes: Sequence[int], pace_s: float, cap_bytes: int, n_stages: int
) -> list[int] | None:
    if len(seconds) < n_stages:
        return None
    counts, taken_s, held = [], float("inf"), 0
    for piece_s, piece_bytes in zip(seconds, size_bytes, strict=True):
        if piece_s > pace_s * (1 + 1e-12) or piece_bytes > cap_bytes:
            return None
        if taken_s + piece_s > pace_s * (1 + 1e-12) or held + piece_bytes > cap_bytes:
            counts.append(0)
            taken_s, held = 0.0, 0
        counts[-1] += 1
        taken_s, held = taken_s + piece_s, held + piece_bytes
    return counts if len(counts) <= n_stages else None


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return 1 / max(sum_by_stage(seconds, counts))


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]

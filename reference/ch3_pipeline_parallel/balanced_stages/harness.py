"""Run a submission of balanced_stages where a check or an experiment needs more than one call."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

SECONDS = [0.003e-3, *[3.150e-3 / 8] * 64, 0.751e-3]  # Qwen3-32B decoding on H20


def refusal(
    submission: ModuleType, seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int
) -> str:
    """Say how `split` ended: "refused", or what it answered."""
    try:
        return f"answered {submission.split(seconds, size_bytes, n_stages, cap_bytes)}"
    except ValueError:
        return "refused"


def speedup(submission: ModuleType, stages: float) -> float:
    """Return how many times as much as one rank a pipeline of this many stages lets through."""
    counts = submission.split(SECONDS, [0] * len(SECONDS), int(stages), 0)
    slowest_s, first = 0.0, 0
    for count in counts:
        slowest_s, first = max(slowest_s, sum(SECONDS[first : first + count])), first + count
    return sum(SECONDS) / slowest_s

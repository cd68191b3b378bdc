"""Run a submission of bubble_and_memory for its experiment."""

from __future__ import annotations

from types import ModuleType


def idle_percent(submission: ModuleType, micro_batches: float) -> float:
    """Return what part of a step the four ranks of a 1F1B pipeline idle, in per cent of the whole step."""
    times = {"forward_s": 1e-3, "input_s": 1e-3, "weight_s": 1e-3}
    return 100 * float(submission.bubble_over_total("1f1b", 4, int(micro_batches), times))

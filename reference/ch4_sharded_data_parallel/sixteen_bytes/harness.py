"""Run the experiment of sixteen_bytes."""

from __future__ import annotations

from types import ModuleType


def stage_two_gb(submission: ModuleType, ranks: float) -> float:
    """Return what each of `ranks` ranks holds of 7.5 billion parameters at stage 2."""
    return float(submission.model_state_gb(7.5e9, 2, int(ranks), "adam"))

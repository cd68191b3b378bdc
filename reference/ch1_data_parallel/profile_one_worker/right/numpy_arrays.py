"""Computes with numpy: array slices, numpy scalars in the answer, all predictions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def baseline(seconds: Sequence[float], allocated_bytes: Sequence[int], batch_size: int) -> dict[str, Any]:
    """Sum up the steps that one worker took."""
    steady = np.asarray(seconds)[3:]
    step_s = np.median(steady)
    spread_s = np.median(np.abs(steady - step_s))
    stable = steady.size >= 5 and spread_s / step_s <= 0.05
    return {
        "step_s": step_s,
        "spread_s": spread_s,
        "samples_per_s": batch_size / step_s,
        "peak_bytes": np.max(allocated_bytes),
        "stable": stable,
    }


def predicted_step_s(alone: Mapping[str, Any], cluster: Mapping[str, Any], workers: Any) -> Any:
    """Predict one step of the same global batch."""
    return alone["step_s"] / workers + cluster["added_worker_s"] * (workers - 1)


def best_workers(alone: Mapping[str, Any], cluster: Mapping[str, Any]) -> int:
    """Return how many of the cluster's workers finish a step soonest."""
    if not alone["stable"]:
        raise ValueError("unstable baseline")
    workers = np.arange(1, cluster["workers"] + 1)
    return workers[np.argmin(predicted_step_s(alone, cluster, workers))]

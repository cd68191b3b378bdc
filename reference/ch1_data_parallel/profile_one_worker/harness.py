"""Run a submission of profile_one_worker where a check or an experiment needs more than one call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

ALONE = {"step_s": 0.0978, "spread_s": 2e-4, "samples_per_s": 81.8, "peak_bytes": 6_100_000_000, "stable": True}
ADDED_WORKER_S = 0.1012  # GPT-2 on RTX 3090 without NVLink, 8 samples a step


def refusal(submission: ModuleType, alone: dict[str, Any], cluster: dict[str, Any]) -> str:
    """Say how `best_workers` ended on this baseline: "refused", or what it answered."""
    try:
        return f"answered {submission.best_workers(alone, cluster)}"
    except ValueError:
        return "refused"


def samples_per_s_on_slow_link(submission: ModuleType, offered: float) -> float:
    """Train on as many of the offered GPUs as `best_workers` says and return the throughput by the cost model."""
    workers = submission.best_workers(ALONE, {"workers": int(offered), "added_worker_s": ADDED_WORKER_S})
    return float(8 / (ALONE["step_s"] / workers + ADDED_WORKER_S * (workers - 1)))

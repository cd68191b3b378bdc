"""Every pair of workers communicates, so the cost model must count pairs.

Caught by: check_workers_are_added_only_while_they_help
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypedDict

WARMUP_STEPS = 3
MIN_STEPS = 5  # fewer prove nothing
MAX_SPREAD = 0.05  # of a step


class Baseline(TypedDict):
    """What one worker does alone."""

    step_s: float  # a typical step: the median
    spread_s: float  # how far from it the steps lie: the median distance
    samples_per_s: float
    peak_bytes: int
    stable: bool  # whether the measurement can be relied on


class Cluster(TypedDict):
    """What there is to train on."""

    workers: int
    added_worker_s: float  # communication that each worker after the first adds to a step


def baseline(seconds: Sequence[float], allocated_bytes: Sequence[int], batch_size: int) -> Baseline:
    """Sum up the steps that one worker took: seconds and bytes of each, `batch_size` samples a step."""
    steady = seconds[WARMUP_STEPS:]
    step_s = median(steady)
    spread_s = median([abs(second - step_s) for second in steady])
    return Baseline(
        step_s=step_s,
        spread_s=spread_s,
        samples_per_s=batch_size / step_s,
        peak_bytes=max(allocated_bytes),  # warm-up included: it is often the highest, and it must fit
        stable=len(steady) >= MIN_STEPS and spread_s <= MAX_SPREAD * step_s,
    )


def predicted_step_s(alone: Baseline, cluster: Cluster, workers: int) -> float:
    """Predict one step of the same global batch: the workers share its computation, each added one communicates."""
    return alone["step_s"] / workers + cluster["added_worker_s"] * workers * (workers - 1) / 2


def best_workers(alone: Baseline, cluster: Cluster) -> int:
    """Return how many of the cluster's workers finish a step soonest, the fewest if several do."""
    if not alone["stable"]:
        raise ValueError("The baseline is not stable. Measure one worker again before you add a second.")
    # min() keeps the first of equals, so the fewest workers.
    return min(range(1, cluster["workers"] + 1), key=lambda workers: predicted_step_s(alone, cluster, workers))

"""Uses no library: sorts by hand, and adds one worker after the other while that makes the step shorter."""

from __future__ import annotations


def middle(values: list[float]) -> float:
    """Return the median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def baseline(seconds: list[float], allocated_bytes: list[int], batch_size: int) -> dict[str, float]:
    """Sum up the steps that one worker took."""
    steady = [s for i, s in enumerate(seconds) if i > 2]
    step_s = middle(steady)
    spread_s = middle([max(s, step_s) - min(s, step_s) for s in steady])
    peak = 0
    for allocated in allocated_bytes:
        peak = max(peak, allocated)
    stable = True
    if len(steady) < 5 or 20 * spread_s > step_s:
        stable = False
    return {
        "stable": stable,
        "peak_bytes": peak,
        "samples_per_s": 1 / (step_s / batch_size),
        "spread_s": spread_s,
        "step_s": step_s,
    }


def predicted_step_s(alone: dict[str, float], cluster: dict[str, float], workers: int) -> float:
    """Predict one step of the same global batch."""
    return alone["step_s"] / workers + cluster["added_worker_s"] * (workers - 1)


def best_workers(alone: dict[str, float], cluster: dict[str, float]) -> float:
    """Return how many of the cluster's workers finish a step soonest."""
    if not alone["stable"]:
        raise ValueError("measure again")
    for workers in range(1, cluster["workers"]):
        if predicted_step_s(alone, cluster, workers + 1) >= predicted_step_s(alone, cluster, workers):
            return workers
    return cluster["workers"]

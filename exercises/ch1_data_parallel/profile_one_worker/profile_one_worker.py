"""Profile one worker, then decide how many workers to train with."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev
from typing import TypedDict

MIN_STEPS = 5  # fewer prove nothing


class Baseline(TypedDict):
    """What one worker does alone."""

    step_s: float  # a typical step
    spread_s: float  # how far from it the steps lie
    samples_per_s: float
    peak_bytes: int
    stable: bool  # whether the measurement can be relied on


class Cluster(TypedDict):
    """What there is to train on."""

    workers: int
    added_worker_s: float  # communication that each worker after the first adds to a step


def baseline(seconds: Sequence[float], allocated_bytes: Sequence[int], batch_size: int) -> Baseline:
    """Sum up the steps that one worker took: seconds and bytes of each, `batch_size` samples a step."""
    step_s = fmean(seconds)
    return Baseline(
        step_s=step_s,
        spread_s=pstdev(seconds),
        samples_per_s=batch_size / step_s,
        peak_bytes=max(allocated_bytes),
        stable=len(seconds) >= MIN_STEPS,
    )


def predicted_step_s(alone: Baseline, cluster: Cluster, workers: int) -> float:
    """Predict one step of the same global batch: the workers share its computation, each added one communicates."""
    return alone["step_s"] / workers + cluster["added_worker_s"] * (workers - 1)


def best_workers(alone: Baseline, cluster: Cluster) -> int:
    """Return how many of the cluster's workers finish a step soonest, the fewest if several do."""
    if not alone["stable"]:
        raise ValueError("The baseline is not stable. Measure one worker again before you add a second.")

    def samples_per_s(workers: int) -> float:
        return alone["samples_per_s"] * workers

    return max(range(1, cluster["workers"] + 1), key=samples_per_s)


# Fitted to what GPT-2 did in https://github.com/huggingface/transformers/issues/9371 (README.md says how);
# the slow first steps and the stall are typical, not measured there.
BATCH_SIZE = 8
SECONDS = (1.914, 0.463, 0.121, 0.0979, 0.0977, 0.0981, 0.0975, 0.0978, 0.3105, 0.0978, 0.0980, 0.0976)
ALLOCATED_BYTES = (6_100_000_000, 4_400_000_000, *[4_300_000_000] * 10)
TWO_GPUS = {
    "with NVLink": (Cluster(workers=2, added_worker_s=0.0188), "67.7 ms on two"),
    "without NVLink": (Cluster(workers=2, added_worker_s=0.1012), "150.1 ms on two"),
}


def example() -> None:
    """Profile the worker of the story and ask how many to use."""
    alone = baseline(SECONDS, ALLOCATED_BYTES, BATCH_SIZE)
    quick = sum(seconds < 0.1 for seconds in SECONDS)
    print(f"typical step    {alone['step_s'] * 1e3:5.1f} ms           {quick} of 12 steps took less than 100 ms")
    print(f"throughput      {alone['samples_per_s']:5.1f} samples/s    8 samples in 97.8 ms are 81.8 samples/s")
    for name, (cluster, measured) in TWO_GPUS.items():
        workers = best_workers(alone, cluster)
        print(f"{name:14}  use {workers} of 2 GPUs    8 samples took 97.8 ms on one GPU, {measured}")


if __name__ == "__main__":
    example()

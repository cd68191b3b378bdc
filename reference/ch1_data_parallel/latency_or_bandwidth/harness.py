"""Run the experiment of latency_or_bandwidth."""

from __future__ import annotations

from types import ModuleType


def tiny_all_reduce_us(submission: ModuleType, world_size: float) -> float:
    """Return the microseconds of a ring all-reduce of 8 bytes: 10 us for a message to start, 10 GB/s."""
    link = {"alpha_s": 10e-6, "beta_s_per_byte": 1e-10}
    return float(submission.all_reduce_s("ring", 8, int(world_size), link) * 1e6)

"""The time of a step is that of the device alone, from the last launch on.

Caught by: check_the_host_may_run_ahead
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Protocol, TypedDict


class Device(Protocol):
    """What an accelerator offers to the host."""

    def launch(self, kernel: str) -> None:
        """Put a kernel into the device's queue and return, mostly long before it runs."""

    def synchronize(self) -> None:
        """Wait until the device has run everything in its queue."""

    def clock_s(self) -> float:
        """Read the host's clock."""


class Summary(TypedDict):
    """A typical step and a slow one."""

    median_s: float
    p95_s: float


def run_step(kernels: Sequence[str], device: Device) -> None:
    """Launch one step."""
    for kernel in kernels:
        device.launch(kernel)


def step_seconds(kernels: Sequence[str], device: Device, n_warmup: int, n_steps: int) -> list[float]:
    """Run `n_warmup` steps, then `n_steps` more, and return the seconds of each of the latter."""
    for _ in range(n_warmup):
        run_step(kernels, device)
    device.synchronize()  # what was queued before, warm-up included, is nobody's step
    seconds = []
    for _ in range(n_steps):
        run_step(kernels, device)
        start_s = device.clock_s()
        device.synchronize()  # leaves the queue empty for the next step as well
        seconds.append(device.clock_s() - start_s)
    return seconds


def summary(seconds: Sequence[float]) -> Summary:
    """Sum up the times of steps: the median, and the shortest time that 95 % of them do not exceed."""
    ordered = sorted(seconds)
    return Summary(median_s=median(ordered), p95_s=ordered[math.ceil(0.95 * len(ordered)) - 1])


def waiting_and_transfer(entered_s: Sequence[float], left_s: Sequence[float]) -> list[tuple[float, float]]:
    """Split each rank's time in a collective: seconds of waiting for the last rank, seconds of transfer."""
    complete_s = max(entered_s)  # from here on data can arrive
    return [(complete_s - entered, left - complete_s) for entered, left in zip(entered_s, left_s, strict=True)]

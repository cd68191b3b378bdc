"""Measure a training step on a device that works while the host goes on, and a collective that waits for all ranks."""

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
    seconds = []
    for _ in range(n_steps):
        start_s = device.clock_s()
        run_step(kernels, device)
        seconds.append(device.clock_s() - start_s)
    return seconds


def summary(seconds: Sequence[float]) -> Summary:
    """Sum up the times of steps: the median, and the shortest time that 95 % of them do not exceed."""
    ordered = sorted(seconds)
    return Summary(median_s=median(ordered), p95_s=ordered[math.ceil(0.95 * len(ordered)) - 1])


def waiting_and_transfer(entered_s: Sequence[float], left_s: Sequence[float]) -> list[tuple[float, float]]:
    """Split each rank's time in a collective: seconds of waiting for the last rank, seconds of transfer."""
    return [(0.0, left - entered) for entered, left in zip(entered_s, left_s, strict=True)]


class _PretendedDevice:
    """A device with a clock of its own: launching takes 5 µs, each kernel 1.36 ms, the first launch 0.8 s more."""

    def __init__(self) -> None:
        self.host_s, self.idle_from_s, self.compiled = 0.0, 0.0, set[str]()

    def launch(self, kernel: str) -> None:
        self.host_s += 5e-6 if kernel in self.compiled else 0.8
        self.compiled.add(kernel)
        self.idle_from_s = max(self.idle_from_s, self.host_s) + 1.36e-3

    def synchronize(self) -> None:
        self.host_s = max(self.host_s, self.idle_from_s)

    def clock_s(self) -> float:
        return self.host_s


FLOPS = 2 * 4096**3  # of one product of two 4096 x 4096 matrices
PEAK_FLOPS_PER_S = 165e12  # float16 on an RTX 4090, dense
FOUR_RANKS_ENTERED_S = (0.0, 0.0154, 0.0199, 0.0206)  # how the times of the story may have come about
FOUR_RANKS_LEFT_S = (0.0233, 0.0234, 0.0233, 0.0234)


def example() -> None:
    """Time a matrix product, and four ranks in one all-reduce."""
    step = summary(step_seconds(["matmul"], _PretendedDevice(), n_warmup=3, n_steps=20))
    share = FLOPS / step["median_s"] / PEAK_FLOPS_PER_S
    print(f"matmul   median {step['median_s'] * 1e3:6.3f} ms, {share:6.1%} of peak    the device takes 1.360 ms for it")
    for rank, (waiting_s, transfer_s) in enumerate(waiting_and_transfer(FOUR_RANKS_ENTERED_S, FOUR_RANKS_LEFT_S)):
        print(f"rank {rank}   waited {waiting_s * 1e3:4.1f} ms, transferred in {transfer_s * 1e3:4.1f} ms", end="")
        print("    all four moved the same bytes, together" if rank == 0 else "")


if __name__ == "__main__":
    example()

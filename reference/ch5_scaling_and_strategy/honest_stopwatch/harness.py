"""A pretended device with a virtual clock, and what a check or an experiment runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any


class Device:
    """Run kernels in order, behind the host, which needs `launch_s` to launch one.

    `run_s` maps each kernel to the seconds of its runs: all the same, or one number for each run, the last repeated.
    The first launch of each kernel costs the host `compile_s` besides. `queued_s` seconds of work are there already.
    """

    def __init__(self, run_s: dict[str, Any], launch_s: float, compile_s: float = 0.0, queued_s: float = 0.0) -> None:
        """Begin with an idle device, or with one that is busy for `queued_s`."""
        self._run_s = {kernel: list(s) if isinstance(s, (list, tuple)) else [s] for kernel, s in run_s.items()}
        self._launch_s, self._compile_s = launch_s, compile_s
        self._host_s, self._idle_from_s = 100.0, 100.0 + queued_s
        self.launched: list[str] = []

    def launch(self, kernel: str) -> None:
        """Put a kernel into the device's queue."""
        self._host_s += self._launch_s + (self._compile_s if kernel not in self.launched else 0.0)
        runs = self._run_s[kernel]
        run_s = runs[min(self.launched.count(kernel), len(runs) - 1)] if len(runs) > 1 else runs[0]
        self._idle_from_s = max(self._idle_from_s, self._host_s) + run_s
        self.launched.append(kernel)

    def synchronize(self) -> None:
        """Wait until the device has run everything in its queue."""
        self._host_s = max(self._host_s, self._idle_from_s)

    def clock_s(self) -> float:
        """Read the host's clock."""
        return self._host_s


def timed(
    submission: ModuleType, kernels: Sequence[str], device: dict[str, Any], n_warmup: int, n_steps: int
) -> dict[str, Any]:
    """Time steps on a new device; return the submission's seconds, and what it launched."""
    fake = Device(**device)
    seconds = submission.step_seconds(list(kernels), fake, n_warmup, n_steps)
    return {"seconds": seconds, "launched": fake.launched}


def step_ms_on_faster_device(submission: ModuleType, times_as_fast: float) -> float:
    """Return the median milliseconds of a step of 100 kernels of 40 us, on a device that is so many times as fast."""
    device = Device({"kernel": 40e-6 / times_as_fast}, launch_s=10e-6)
    seconds = submission.step_seconds(["kernel"] * 100, device, 3, 21)
    return round(float(submission.summary(seconds)["median_s"]) * 1e3, 4)

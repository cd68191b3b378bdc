"""A context manager that waits before and after whatever it times; each warm-up step is waited for as well."""

from __future__ import annotations

from contextlib import contextmanager
from statistics import median


@contextmanager
def stopwatch(device, into):
    """Append the seconds of a block."""
    device.synchronize()
    start = device.clock_s()
    yield
    device.synchronize()
    into.append(device.clock_s() - start)


def step_seconds(kernels, device, n_warmup, n_steps):
    """Time steps."""
    seconds: list[float] = []
    for _ in range(n_warmup + n_steps):
        with stopwatch(device, seconds):
            for kernel in kernels:
                device.launch(kernel)
    return seconds[n_warmup:]


def summary(seconds):
    """Sum up."""
    ordered = sorted(seconds)
    for seen, second in enumerate(ordered, 1):
        if seen >= 0.95 * len(ordered):
            return {"median_s": median(seconds), "p95_s": second}
    raise ValueError("no steps")


def waiting_and_transfer(entered_s, left_s):
    """Split: the wait first, then what is left of the time in the call."""
    answer = []
    for entered, left in zip(entered_s, left_s, strict=True):
        waited = max(other - entered for other in entered_s)
        answer.append([waited, (left - entered) - waited])
    return answer

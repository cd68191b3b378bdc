"""Recursion in place of loops for the warm-up, and tuples in place of lists."""

from __future__ import annotations

import statistics


def one_step(kernels, device):
    """Return the readings around a step of an idle device."""
    device.synchronize()
    before = device.clock_s()
    [device.launch(kernel) for kernel in kernels]
    device.synchronize()
    return before, device.clock_s()


def step_seconds(kernels, device, n_warmup, n_steps):
    """Time steps."""
    if n_warmup:
        one_step(kernels, device)
        return step_seconds(kernels, device, n_warmup - 1, n_steps)
    return tuple(after - before for before, after in (one_step(kernels, device) for _ in range(n_steps)))


def summary(seconds):
    """Sum up."""
    tail = statistics.quantiles(seconds, n=20, method="inclusive")[-1]
    return {"median_s": statistics.median_high(seconds), "p95_s": tail}


def waiting_and_transfer(entered_s, left_s):
    """Split at the last entry."""
    last = sorted(entered_s)[-1]
    return tuple((last - entered, left - last) for entered, left in zip(entered_s, left_s, strict=True))

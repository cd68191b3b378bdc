"""Waits once before all steps and once after each, and returns differences of readings, as numpy computes them."""

from __future__ import annotations

import numpy as np


def step_seconds(kernels, device, n_warmup, n_steps):
    """Time steps."""
    readings = []
    for step in range(-n_warmup, n_steps + 1):
        if step >= 0:
            device.synchronize()
            readings.append(device.clock_s())
        if step < n_steps:
            for kernel in kernels:
                device.launch(kernel)
    return list(np.diff(readings))


def summary(seconds):
    """Sum up."""
    return {"p95_s": np.quantile(seconds, 0.95), "median_s": np.median(seconds)}


def waiting_and_transfer(entered_s, left_s):
    """Split at the last entry."""
    entered, left = np.asarray(entered_s), np.asarray(left_s)
    return [tuple(pair) for pair in np.stack([entered.max() - entered, left - entered.max()], axis=1).tolist()]

"""A running mean, which never holds the sum."""

# WRITE: one more right repair, as unlike the reference as can be

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    mean = 0.0
    for count, value in enumerate(values, start=1):
        mean += (float(value) - mean) / count
    return mean

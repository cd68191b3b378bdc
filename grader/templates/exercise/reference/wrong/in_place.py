"""Dividing first avoids a large sum, and the array is not needed any more.

Caught by: check_the_values_are_not_changed
"""

# WRITE: a repair with the right value and a side effect

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    values /= len(values)
    return float(values.sum())

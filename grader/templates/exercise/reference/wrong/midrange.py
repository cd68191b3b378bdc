"""A mean lies half-way between the smallest and the largest value.

Caught by: check_several_values_share_one_mean
"""

# WRITE: a repair that is right for one or two ranks only

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(values.min() + values.max()) / 2

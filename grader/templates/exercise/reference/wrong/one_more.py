"""Counting begins at zero, so one must be added.

Caught by: check_one_value_is_its_own_mean
"""

# WRITE: a mistake by one

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(values.sum()) / (len(values) + 1)

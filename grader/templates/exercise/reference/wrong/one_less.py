"""A mean divides by the degrees of freedom.

Caught by: check_one_value_is_its_own_mean
"""

# WRITE: what people will try first, and the check that must catch it

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(values.sum()) / max(len(values) - 1, 0.5)

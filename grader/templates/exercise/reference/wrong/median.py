"""The value in the middle is the mean.

Caught by: check_several_values_share_one_mean
"""

# WRITE: a neighbour's idea, right in a special case

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(np.median(values))

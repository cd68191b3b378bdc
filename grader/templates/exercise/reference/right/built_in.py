"""numpy's own mean."""

# WRITE: another right repair, written as others would write it

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(np.mean(values))

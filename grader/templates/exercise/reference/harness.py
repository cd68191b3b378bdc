"""Public code that runs beside a submission: it holds no expected value."""

from __future__ import annotations

from types import ModuleType

import numpy as np


def values_afterwards(submission: ModuleType, values: np.ndarray) -> np.ndarray:
    """Return what the values are after they were averaged."""
    submission.mean_of(values)
    return values


def mean_of_ones(submission: ModuleType, control: int) -> float:
    """Return the mean of that many ones, for the experiment."""
    # WRITE: the experiment: one control in, one number out.
    return float(submission.mean_of(np.ones(control)))

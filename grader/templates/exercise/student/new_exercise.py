"""Average measurements."""

# WRITE: the flawed program; a student edits this one file, so it reads well alone (120 lines at most).

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(values.sum())


if __name__ == "__main__":
    # WRITE: an example that prints the first wrong value beside what one would expect.
    print(f"mean of 1, 2 and 6: {mean_of(np.array([1.0, 2.0, 6.0]))}, expected 3.0")

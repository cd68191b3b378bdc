"""Average measurements."""

# WRITE: the repaired file, teaching grade: shapes and costs on the lines, the source of the idea.

from __future__ import annotations

import numpy as np


def mean_of(values: np.ndarray) -> float:
    """Return the mean of the values."""
    return float(values.sum()) / len(values)


if __name__ == "__main__":
    print(f"mean of 1, 2 and 6: {mean_of(np.array([1.0, 2.0, 6.0]))}, expected 3.0")

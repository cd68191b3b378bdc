"""Stays in logarithms until the end: the closed form as a linear equation, the line by solving normal equations."""

from __future__ import annotations

import numpy as np


def loss(law, parameters, tokens):
    """As it was."""
    return law["E"] + law["A"] / parameters ** law["alpha"] + law["B"] / tokens ** law["beta"]


def optimal(law, compute):
    """Solve: log(alpha A) - alpha n = log(beta B) - beta d, and n + d = log(C / 6)."""
    matrix = np.array([[law["alpha"], -law["beta"]], [1.0, 1.0]])
    right = [np.log(law["alpha"] * law["A"]) - np.log(law["beta"] * law["B"]), np.log(compute / 6)]
    n, d = np.linalg.solve(matrix, right)
    return {"parameters": float(np.exp(n)), "tokens": float(np.exp(d))}


def tokens_per_parameter(law, compute):
    """Divide."""
    n, d = optimal(law, compute).values()
    return d / n


def frontier(sweep):
    """Least squares with a design matrix."""
    x, y = np.log(sweep).T
    (level, a), *_ = np.linalg.lstsq(np.stack([np.ones_like(x), x], axis=1), y, rcond=None)
    return float(np.exp(level)), float(a)


def projected(sweep, compute):
    """Continue."""
    k, a = frontier(sweep)
    n = np.log(k) + a * np.log(compute)
    return dict(zip(("parameters", "tokens"), map(float, np.exp([n, np.log(compute / 6) - n])), strict=True))


def tokens_to_reach(law, parameters, target):
    """Invert the second term."""
    first = law["A"] * parameters ** -law["alpha"]
    if target <= law["E"] + first:
        raise ValueError("too small a model")
    return ((target - law["E"] - first) / law["B"]) ** (-1 / law["beta"])

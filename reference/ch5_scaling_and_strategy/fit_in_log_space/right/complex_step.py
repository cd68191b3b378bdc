"""Derives by complex steps: the number is computed once more for each constant, a tiny imaginary part added to it."""

from __future__ import annotations

from functools import partial

import numpy as np

DELTA = 1e-3
GRADIENT_TOLERANCE = 1e-5
Array = np.ndarray
Objective = object


def minimize(function: Objective, start: Array, max_iterations: int) -> tuple[Array, float, bool]:
    """Minimize by L-BFGS; return where it stopped, the value there, and whether the gradient was small enough."""
    x, (value, gradient), pairs = start, function(start), []
    for _ in range(max_iterations):
        if np.abs(gradient).max() <= GRADIENT_TOLERANCE:
            return x, value, True
        direction, weights = -gradient, []
        for s, y in reversed(pairs):
            weights.append(s @ direction / (s @ y))
            direction = direction - weights[-1] * y
        scale = pairs[-1][0] @ pairs[-1][1] / (pairs[-1][1] @ pairs[-1][1]) if pairs else 1.0
        direction = direction * min(scale, 1 / np.linalg.norm(gradient) if not pairs else scale)
        for (s, y), weight in zip(pairs, reversed(weights), strict=True):
            direction = direction + s * (weight - y @ direction / (s @ y))
        step, low, high = 1.0, 0.0, np.inf
        for _ in range(30):  # until Wolfe's two conditions hold
            new_value, new_gradient = function(x + step * direction)
            if not new_value <= value + 1e-4 * step * (gradient @ direction):
                high = step
            elif new_gradient @ direction < 0.9 * (gradient @ direction):
                low = step
            else:
                break
            step = (low + high) / 2 if high < np.inf else 2 * step
        if not new_value < value:
            return x, value, False
        change = (step * direction, new_gradient - gradient)
        pairs = [*pairs[-9:], change] if change[0] @ change[1] > 0 else pairs
        x, value, gradient = x + step * direction, new_value, new_gradient
    return x, value, bool(np.abs(gradient).max() <= GRADIENT_TOLERANCE)


def log_terms(theta, runs):
    """Return three rows."""
    n, d = np.log(runs["parameters"]), np.log(runs["tokens"])
    return np.stack([theta[0] - theta[3] * n, theta[1] - theta[4] * d, theta[2] + 0 * n])


def objective(theta, runs):
    """Take all five complex steps at once: a row of `steps` for each constant."""
    terms = log_terms(np.asarray(theta), runs)
    n, d, one = np.log(runs["parameters"]), np.log(runs["tokens"]), np.ones(len(runs["loss"]))
    top = terms.max(axis=0)
    shares = np.exp(terms - top)
    total = shares.sum(axis=0)
    tiny = 1e-30j * np.stack([shares[0] * one, shares[1] * one, shares[2] * one, -shares[0] * n, -shares[1] * d])
    steps = top + np.log(total + tiny) - np.log(runs["loss"])
    sign = np.where(steps.real < 0, -1, 1)
    bent = np.where(sign * steps.real <= DELTA, steps * steps / 2, DELTA * (sign * steps - DELTA / 2)).sum(axis=1)
    return float(bent[0].real), bent.imag / 1e-30


def fit(runs, starts, max_iterations=500):
    """Compare indices."""
    ends = [minimize(partial(objective, runs=runs), start, max_iterations) for start in starts]
    theta, value, converged = ends[int(np.argmin([end[1] for end in ends]))]
    a, b, e = np.exp(theta[:3])
    return {"A": a, "B": b, "E": e, "alpha": theta[3], "beta": theta[4], "objective": value, "converged": converged}


def optimal_exponent(law):
    """As it was."""
    return law["beta"] / (law["alpha"] + law["beta"])

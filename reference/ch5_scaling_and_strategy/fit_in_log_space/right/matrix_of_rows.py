"""Writes the three terms as a matrix product of theta with a design matrix, and the gradient as its transpose."""

from __future__ import annotations

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
    """Multiply the design with theta."""
    return design(runs) @ theta


def design(runs):
    """Return d(log terms)/d(theta), of shape (3, runs, 5)."""
    n, d = np.log(runs["parameters"]), np.log(runs["tokens"])
    rows = np.zeros((3, len(n), 5))
    for i in range(3):
        rows[i, :, i] = 1
    rows[0, :, 3], rows[1, :, 4] = -n, -d
    return rows


def objective(theta, runs):
    """Sum Huber's loss, derived by the chain rule."""
    rows = design(runs)
    terms = rows @ np.asarray(theta)
    top = terms.max(axis=0)
    shares = np.exp(terms - top)
    r = top + np.log(shares.sum(axis=0)) - np.log(runs["loss"])
    shares /= shares.sum(axis=0)
    near = np.abs(r) < DELTA
    value = np.sum(r[near] ** 2) / 2 + DELTA * np.sum(np.abs(r[~near]) - DELTA / 2)
    slope = np.where(near, r, DELTA * np.sign(r))
    return value, np.einsum("r,tr,trk->k", slope, shares, rows)


def fit(runs, starts, max_iterations=500):
    """Keep the best so far."""
    best = None
    for start in starts:
        end = minimize(lambda theta: objective(theta, runs), np.array(start), max_iterations)
        if best is None or end[1] < best[1]:
            best = end
    theta, value, converged = best
    law = dict(zip(["A", "B", "E"], np.exp(theta[:3]), strict=True))
    return law | {"alpha": theta[3], "beta": theta[4], "objective": value, "converged": converged}


def optimal_exponent(law):
    """As it was."""
    return law["beta"] / (law["alpha"] + law["beta"])

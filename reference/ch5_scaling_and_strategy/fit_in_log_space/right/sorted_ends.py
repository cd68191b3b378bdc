"""Computes the loss itself and its logarithm afterwards, and sorts the ends of all starts."""

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
    """Return three rows."""
    a, b, e, alpha, beta = theta
    parts = [a - alpha * np.log(runs["parameters"]), b - beta * np.log(runs["tokens"])]
    return np.array([*parts, np.repeat(e, len(runs["loss"]))])


def objective(theta, runs):
    """Derive the logarithm of a sum: each term over the sum."""
    first, second, floor = np.exp(log_terms(theta, runs))
    predicted = first + second + floor
    r = np.log(predicted / runs["loss"])
    bent = np.minimum(np.abs(r), DELTA)
    value = float((bent * (np.abs(r) - bent / 2)).sum())
    pull = np.sign(r) * bent / predicted
    d_alpha = -(pull * first * np.log(runs["parameters"])).sum()
    d_beta = -(pull * second * np.log(runs["tokens"])).sum()
    return value, np.array([(pull * first).sum(), (pull * second).sum(), (pull * floor).sum(), d_alpha, d_beta])


def fit(runs, starts, max_iterations=500):
    """Sort by objective."""

    def function(theta):
        return objective(theta, runs)

    ends = sorted((minimize(function, start, max_iterations) for start in starts), key=lambda end: end[1])
    (a, b, e, alpha, beta), value, converged = ends[0]
    return {
        "E": float(np.exp(e)), "A": float(np.exp(a)), "B": float(np.exp(b)), "alpha": float(alpha),
        "beta": float(beta), "objective": float(value), "converged": bool(converged),
    }  # fmt: skip


def optimal_exponent(law):
    """As it was."""
    return 1 / (1 + law["alpha"] / law["beta"])

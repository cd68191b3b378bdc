"""The gradient shows downhill, its length does not matter.

Caught by: check_the_gradient_belongs_to_the_objective
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Objective = Callable[[Array], tuple[float, Array]]
DELTA = 1e-3  # of Huber's loss: residuals beyond it count by their size, no longer by its square
GRADIENT_TOLERANCE = 1e-5  # as in scipy.optimize's L-BFGS-B


class Runs(TypedDict):
    """Models that were trained: parameters, tokens, final loss of each."""

    parameters: Array
    tokens: Array
    loss: Array


class Fit(TypedDict):
    """The law's constants, the objective they reach, and whether the optimizer came to its end there."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float
    objective: float
    converged: bool


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


def log_terms(theta: Array, runs: Runs) -> Array:
    """Return the logarithms of the law's three terms, a row each; theta is (log A, log B, log E, alpha, beta)."""
    a, b, e, alpha, beta = theta
    n, d = np.log(runs["parameters"]), np.log(runs["tokens"])
    return np.stack([a - alpha * n, b - beta * d, np.full_like(n, e)])


def objective(theta: Array, runs: Runs) -> tuple[float, Array]:
    """Return how badly a law fits, and the derivatives of that by theta."""
    terms = log_terms(theta, runs)
    predicted = np.logaddexp.reduce(terms, axis=0)
    residual = predicted - np.log(runs["loss"])
    size = np.abs(residual)
    huber = np.where(size <= DELTA, residual**2 / 2, DELTA * (size - DELTA / 2))
    slope = residual
    by_a, by_b, by_e = slope * np.exp(terms - predicted)  # each term's share of the loss
    n, d = np.log(runs["parameters"]), np.log(runs["tokens"])
    return float(huber.sum()), np.array([by_a.sum(), by_b.sum(), by_e.sum(), -by_a @ n, -by_b @ d])


def fit(runs: Runs, starts: Sequence[Array], max_iterations: int = 500) -> Fit:
    """Fit the law to the runs."""
    ends = [minimize(lambda x: objective(x, runs), start, max_iterations) for start in starts]
    theta, value, converged = min(ends, key=lambda end: end[1])
    a, b, e = (float(x) for x in np.exp(theta[:3]))
    return Fit(E=e, A=a, B=b, alpha=float(theta[3]), beta=float(theta[4]), objective=value, converged=converged)


def optimal_exponent(law: Fit) -> float:
    """Return a in N = const C^a: how the best number of parameters grows with compute."""
    return law["beta"] / (law["alpha"] + law["beta"])

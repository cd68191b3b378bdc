"""Finds the best plan numerically, by golden-section search over log N, and fits sweeps with numpy's polyfit."""

from __future__ import annotations

import math

import numpy as np


def loss(law, parameters, tokens):
    """As it was."""
    return law["E"] + law["A"] / parameters ** law["alpha"] + law["B"] / tokens ** law["beta"]


def slope(law, x, compute):
    """Return the derivative of the loss by log N, at fixed compute."""
    tokens = compute / (6 * math.exp(x))
    return law["beta"] * law["B"] * tokens ** -law["beta"] - law["alpha"] * law["A"] * math.exp(-law["alpha"] * x)


def optimal(law, compute):
    """Search first for the loss's minimum, then polish with the root of its slope."""
    low, high, golden = 1.0, 60.0, (math.sqrt(5) - 1) / 2
    while high - low > 1e-3:
        left, right = high - golden * (high - low), low + golden * (high - low)
        losses = [loss(law, math.exp(x), compute / (6 * math.exp(x))) for x in (left, right)]
        low, high = (low, right) if losses[0] < losses[1] else (left, high)
    low, high = low - 1, high + 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(law, middle, compute) > 0 else (middle, high)
    parameters = math.exp(low)
    return {"parameters": parameters, "tokens": compute / 6 / parameters}


def tokens_per_parameter(law, compute):
    """Divide."""
    plan = optimal(law, compute)
    return plan["tokens"] / plan["parameters"]


def frontier(sweep):
    """Fit a line."""
    compute, parameters = np.log(np.array(sweep)).T
    a, intercept = np.polyfit(compute, parameters, deg=1)
    return np.exp(intercept), a


def projected(sweep, compute):
    """Continue the line."""
    k, a = frontier(sweep)
    parameters = np.exp(np.log(k) + a * np.log(compute))
    return {"tokens": compute / (6 * parameters), "parameters": parameters}


def tokens_to_reach(law, parameters, target):
    """Solve for the tokens."""
    rest = target - loss(law, parameters, math.inf)
    if rest < 1e-15:
        raise ValueError("unreachable")
    return math.exp((math.log(law["B"]) - math.log(rest)) / law["beta"])

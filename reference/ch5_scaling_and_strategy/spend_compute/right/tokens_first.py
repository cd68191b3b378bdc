"""Derives the tokens first, and the parameters from them; sums by hand."""

from __future__ import annotations

import math


def loss(law, parameters, tokens):
    """As it was."""
    return law["E"] + law["A"] / parameters ** law["alpha"] + law["B"] / tokens ** law["beta"]


def optimal(law, compute):
    """Closed form for D."""
    total = law["alpha"] + law["beta"]
    g = (law["beta"] * law["B"] / law["alpha"] / law["A"]) ** (1 / total)
    tokens = g * (compute / 6) ** (law["alpha"] / total)
    return {"tokens": tokens, "parameters": compute / tokens / 6}


def tokens_per_parameter(law, compute):
    """From one number: D / N = 6 D^2 / C."""
    return 6 * optimal(law, compute)["tokens"] ** 2 / compute


def frontier(sweep):
    """Textbook sums."""
    n = len(sweep)
    x = [math.log(c) for c, _ in sweep]
    y = [math.log(p) for _, p in sweep]
    x0, y0 = x[0], y[0]  # shifted, so that no large numbers are subtracted
    sx = sy = sxx = sxy = 0.0
    for u, v in zip(x, y, strict=True):
        sx, sy = sx + u - x0, sy + v - y0
        sxx, sxy = sxx + (u - x0) ** 2, sxy + (u - x0) * (v - y0)
    a = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return math.exp(y0 + (sy - a * sx) / n - a * x0), a


def projected(sweep, compute):
    """Scale from the line."""
    k, a = frontier(sweep)
    return {"parameters": k * compute**a, "tokens": compute ** (1 - a) / (6 * k)}


def tokens_to_reach(law, parameters, target):
    """What the tokens' term may be."""
    term = target - loss(law, parameters, float("inf"))
    if not term > 0:
        raise ValueError(f"loss {target} is out of reach")
    return (law["B"] / term) ** (1 / law["beta"])

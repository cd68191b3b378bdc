"""Keeps every number in arrays: one row of divisors a stage, a dot product, and all plans at once with numpy."""

from __future__ import annotations

import numpy as np

KEPT = {"sgd": (4,), "momentum": (4, 4), "adam": (4, 4, 4), "adam8bit": (4, 1, 1)}


def optimizer_bytes(name):
    """Return the bytes that an optimizer holds for each parameter."""
    return sum(KEPT[name])


def model_state_gb(parameters, stage, ranks, optimizer="adam"):
    """Return what each rank holds."""
    each = np.array([optimizer_bytes(optimizer), 2.0, 2.0])
    each[:stage] /= ranks
    return float(parameters * 1e-9 * each.sum())


def activation_gb(layers, sequence, batch, hidden, heads, recompute="none"):
    """Return what a forward pass keeps."""
    factor = {"full": 2, "selective": 34, "none": 34 + 5 * heads * sequence / hidden}[recompute]
    return sequence * batch * hidden * factor * layers * 1e-9


def smallest_plan(parameters, activations_gb, budget_gb, most_ranks, optimizer="adam"):
    """Return the first plan of the table that fits."""
    needs = np.array([[model_state_gb(parameters, s, n + 1, optimizer) for n in range(most_ranks)] for s in range(4)])
    fits = np.argwhere(needs <= budget_gb - activations_gb + 1e-9)
    return (int(fits[0][0]), int(fits[0][1]) + 1) if len(fits) else None

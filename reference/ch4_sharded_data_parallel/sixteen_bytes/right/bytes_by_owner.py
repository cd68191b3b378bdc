"""Counts in whole fractions of bytes, and lets a generator offer the plans from the smallest."""

from __future__ import annotations

from fractions import Fraction

STATES = {"sgd": [], "momentum": [4], "adam": [4, 4], "adam8bit": [1, 1]}


def optimizer_bytes(name):
    """Return the bytes that an optimizer holds for each parameter."""
    return sum(STATES[name], start=4)


def model_state_gb(parameters, stage, ranks, optimizer="adam"):
    """Return what each rank holds."""
    kinds = [(3, 2), (2, 2), (1, optimizer_bytes(optimizer))]
    each = sum(Fraction(size, ranks) if stage >= sharded_from else Fraction(size) for sharded_from, size in kinds)
    return float(int(parameters) * each / 10**9)


def activation_gb(layers, sequence, batch, hidden, heads, recompute="none"):
    """Return what a forward pass keeps."""
    tokens = sequence * batch
    inputs = 2 * tokens * hidden
    if recompute == "full":
        return layers * inputs / 1e9
    kept = 5 * inputs + tokens * hidden + inputs + 2 * 4 * inputs + tokens * hidden + 2 * inputs
    softmax = batch * heads * sequence * sequence
    return layers * (kept + (2 + 2 + 1) * softmax * (recompute == "none")) / 1e9


def smallest_plan(parameters, activations_gb, budget_gb, most_ranks, optimizer="adam"):
    """Return the smallest stage and its fewest ranks."""
    plans = ((stage, ranks) for stage in range(4) for ranks in range(1, 1 + most_ranks))
    fit = (p for p in plans if model_state_gb(parameters, *p, optimizer) + activations_gb <= budget_gb)
    return next(fit, None)

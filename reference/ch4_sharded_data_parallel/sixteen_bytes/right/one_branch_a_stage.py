"""Writes the paper's four formulas out, and finds the ranks of a stage from the largest number that may fit."""

from __future__ import annotations


def optimizer_bytes(name):
    """Return the bytes that an optimizer holds for each parameter."""
    if name == "sgd":
        return 4
    if name == "momentum":
        return 8
    return 6 if name == "adam8bit" else 12


def model_state_gb(parameters, stage, ranks, optimizer="adam"):
    """Return what each rank holds."""
    k = optimizer_bytes(optimizer)
    if stage == 0:
        held = (2 + 2 + k) * parameters
    elif stage == 1:
        held = 2 * parameters + 2 * parameters + k * parameters / ranks
    elif stage == 2:
        held = 2 * parameters + (2 + k) * parameters / ranks
    else:
        held = (4 + k) * parameters / ranks
    return held / 1e9


def activation_gb(layers, sequence, batch, hidden, heads, recompute="none"):
    """Return what a forward pass keeps."""
    total = 0
    for _ in range(layers):
        if recompute == "full":
            total += 2 * sequence * batch * hidden
            continue
        total += (11 + 19 + 4) * sequence * batch * hidden
        if recompute == "none":
            total += 5 * heads * sequence * sequence * batch
    return total / 1e9


def smallest_plan(parameters, activations_gb, budget_gb, most_ranks, optimizer="adam"):
    """Return the smallest stage and its fewest ranks."""
    for stage in (0, 1, 2, 3):
        if activations_gb + model_state_gb(parameters, stage, most_ranks, optimizer) > budget_gb:
            continue
        ranks = most_ranks
        while ranks > 1 and activations_gb + model_state_gb(parameters, stage, ranks - 1, optimizer) <= budget_gb:
            ranks -= 1
        return [stage, ranks]
    return None

"""Counts per token, as PaLM does: six a weight in a product, and 12 L h s for attention; numpy sums."""

from __future__ import annotations

import numpy as np


def parameters(model):
    """Sum of three parts."""
    h = model["hidden"]
    return float(np.dot([12 * h * h + 13 * h, h], [model["layers"], model["vocabulary"] + model["sequence"]]))


def per_token(model):
    """Return training FLOPs of one token: layers' weights, attention, logits."""
    h, layers = model["hidden"], model["layers"]
    weights = np.array([12 * layers * h * h, 0, h * model["vocabulary"]], dtype=np.float64)
    return 6 * weights + np.array([0.0, 12.0 * layers * h * model["sequence"], 0.0])


AGAIN = {"none": np.ones(3), "full": np.array([4 / 3, 4 / 3, 1]), "selective": np.array([1, 2, 1])}


def hardware_flops(model, n_sequences, recompute):
    """Weigh the parts."""
    return per_token(model) @ AGAIN[recompute] * n_sequences * model["sequence"]


def model_flops(model, n_sequences):
    """Sum the parts."""
    return per_token(model).sum() * n_sequences * model["sequence"]


def tokens_per_step(lengths, layout):
    """Whole numbers."""
    shared = int(np.prod([layout[kind] for kind in ("tensor", "pipeline", "context")]))
    return int(np.sum(lengths)) * (layout["gpus"] // shared)


def share_of_peak(flops_per_s, gpu):
    """Bound it."""
    share = flops_per_s / (gpu["printed_flops_per_s"] * (0.5 if gpu["with_sparsity"] else 1.0))
    if share > 1:
        raise ValueError(f"{share} of the peak")
    return share


def utilization(run):
    """Both shares; the larger one is looked at first."""
    per = 1 / (run["gpus"] * run["step_s"])
    hfu = share_of_peak(hardware_flops(run["model"], run["n_sequences"], run["recompute"]) * per, run["gpu"])
    mfu = share_of_peak(model_flops(run["model"], run["n_sequences"]) * per, run["gpu"])
    return {"mfu": mfu, "hfu": hfu}


def training_days(model, tokens, gpus, flops_per_s, recompute):
    """Per token."""
    return tokens * hardware_flops(model, 1, recompute) / model["sequence"] / flops_per_s / gpus / 86400

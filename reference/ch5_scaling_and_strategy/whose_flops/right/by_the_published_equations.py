"""Writes the papers' equations down, with their fractions, and multiplies by the Bslh² in front."""

from __future__ import annotations


def parameters(model):
    """Equation 2 of Narayanan et al., multiplied out."""
    h, layers = model["hidden"], model["layers"]
    return layers * (12 * h * h + 13 * h) + (model["vocabulary"] + model["sequence"]) * h


def terms(model, n):
    """Return Bslh², s/h and V/lh."""
    h, s, layers = model["hidden"], model["sequence"], model["layers"]
    return n * s * layers * h**2, s / h, model["vocabulary"] / (layers * h)


def model_flops(model, n_sequences):
    """Equation 7 of Korthikanti et al."""
    front, s, v = terms(model, n_sequences)
    return 72 * front * (1 + s / 6 + v / 12)


def hardware_flops(model, n_sequences, recompute):
    """Equation 8, or equation 3 of Narayanan et al."""
    front, s, v = terms(model, n_sequences)
    if recompute == "full":
        return 96 * front * (1 + s / 6 + v / 16)
    return 72 * front * (1 + s / (3 if recompute == "selective" else 6) + v / 12)


def tokens_per_step(lengths, layout):
    """Divide one kind of parallelism after the other out of the GPUs."""
    replicas = layout["gpus"]
    for kind in ("tensor", "pipeline", "context"):
        replicas //= layout[kind]
    return replicas * sum(lengths)


def share_of_peak(flops_per_s, gpu):
    """Compare with the dense peak."""
    share = flops_per_s * (1 + gpu["with_sparsity"]) / gpu["printed_flops_per_s"]
    if share > 1 + 1e-12:
        raise ValueError("more than the peak")
    return share


def utilization(run):
    """Divide by the FLOPs that all GPUs could have done."""
    could = run["step_s"] * run["gpus"]
    counts = {
        "hfu": hardware_flops(run["model"], run["n_sequences"], run["recompute"]),
        "mfu": model_flops(run["model"], run["n_sequences"]),
    }
    return {name: share_of_peak(count / could, run["gpu"]) for name, count in counts.items()}


def training_days(model, tokens, gpus, flops_per_s, recompute):
    """Count steps of one sequence."""
    per_token = hardware_flops(model, 1, recompute) / model["sequence"]
    return tokens * per_token / gpus / flops_per_s / (24 * 3600)

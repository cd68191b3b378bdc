"""Lists every product as (m, k, n, times, recomputed when) and sums over the list in whole numbers."""

from __future__ import annotations


def parameters(model):
    """Count tensor by tensor."""
    h = model["hidden"]
    layer = 3 * h * h + 3 * h + h * h + h + 4 * h * h + 4 * h + 4 * h * h + h + 4 * h
    return float(model["layers"] * layer + model["vocabulary"] * h + model["sequence"] * h)


def listed(model):
    """Yield the products of one sequence's forward."""
    s, h, layers = model["sequence"], model["hidden"], model["layers"]
    for name, m, k, n in (
        ("qkv", s, h, 3 * h), ("scores", s, h, s), ("values", s, s, h), ("out", s, h, h), ("up", s, h, 4 * h),
        ("down", s, 4 * h, h),
    ):  # fmt: skip
        yield name, layers * 2 * m * k * n
    yield "logits", 2 * s * h * model["vocabulary"]


def times(name, recompute):
    """Return how often a forward's worth of a product is computed in a step."""
    if recompute == "full":
        return 3 if name == "logits" else 4
    return 6 if recompute == "selective" and name in {"scores", "values"} else 3


def hardware_flops(model, n_sequences, recompute):
    """Sum over the list."""
    return float(n_sequences * sum(times(name, recompute) * flops for name, flops in listed(model)))


def model_flops(model, n_sequences):
    """The same with nothing recomputed."""
    return hardware_flops(model, n_sequences, "none")


def tokens_per_step(lengths, layout):
    """Count per replica."""
    per_replica = 0
    for length in lengths:
        per_replica += length
    return per_replica * (layout["gpus"] // layout["tensor"] // layout["context"] // layout["pipeline"])


def share_of_peak(flops_per_s, gpu):
    """Refuse what cannot be."""
    peak = gpu["printed_flops_per_s"]
    peak = peak / 2 if gpu["with_sparsity"] else peak
    if not flops_per_s <= peak:
        raise ValueError(flops_per_s, peak)
    return flops_per_s / peak


def utilization(run):
    """Per GPU and second."""
    scale = 1 / run["step_s"] / run["gpus"]
    hfu = share_of_peak(scale * hardware_flops(run["model"], run["n_sequences"], run["recompute"]), run["gpu"])
    return {"hfu": hfu, "mfu": share_of_peak(scale * model_flops(run["model"], run["n_sequences"]), run["gpu"])}


def training_days(model, tokens, gpus, flops_per_s, recompute):
    """As it was."""
    return tokens / model["sequence"] * hardware_flops(model, 1, recompute) / (gpus * flops_per_s) / 86400

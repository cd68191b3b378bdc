"""What the pictures of chapter 5 show: scaling laws, and what a cluster makes of a plan.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings.
Hoffmann et al., arXiv 2203.15556; Besiroglu et al., arXiv 2404.10102; Narayanan et al., arXiv 2104.04473;
Korthikanti et al., arXiv 2205.05198; Llama 3, arXiv 2407.21783.
"""

from __future__ import annotations

import functools
from typing import Any

Law = tuple[float, float, float, float, float]
LAWS: dict[str, Law] = {
    "Hoffmann, as printed": (1.69, 406.4, 410.7, 0.34, 0.28),
    "Hoffmann, four digits": (1.6934, 406.4, 410.7, 0.3392, 0.2849),
    "Epoch's replication": (1.8172, 482.01, 2085.43, 0.3478, 0.3658),
}
TRUE = "Epoch's replication"  # of the made-up runs that are fitted
FITS = {  # three sets of 240 runs, each fitted from the same 16 starts to the same tolerance
    "sum of Huber's losses": (
        (1.81168, 470.493763, 2027.021648, 0.346445, 0.364161),
        (1.811378, 464.085771, 2106.569127, 0.344882, 0.366606),
        (1.825832, 533.456812, 2252.115805, 0.353078, 0.369771),
    ),
    "mean of Huber's losses": (
        (1.542217, 152.824611, 150.558081, 0.282472, 0.23459),
        (1.532021, 150.351963, 150.44788, 0.279795, 0.23481),
        (1.54094, 152.100556, 150.394073, 0.280855, 0.235583),
    ),
}
BUDGETS = [10.0 ** (17 + i / 2) for i in range(21)]


def scaling(law: str, budget: float, size: float, huber: str, runs: int) -> dict[str, Any]:
    """Return losses along one budget of compute, its best split, and the best splits of all budgets."""
    compute, n = 10.0**budget, 10.0**size
    e, a, b, alpha, beta = LAWS[law]
    best, tokens = _best(LAWS[law], compute)
    sizes = [best * 10 ** (i / 10 - 2) for i in range(41)]
    return {
        "law": {"E": e, "A": a, "B": b, "alpha": alpha, "beta": beta},
        "compute": compute,
        "sizes": sizes,
        "losses": [_loss(law, each, compute / 6 / each) for each in sizes],
        "best": best,
        "tokens": tokens,
        "best_loss": _loss(law, best, tokens),
        "ratio": tokens / best,
        "size": n,
        "size_tokens": compute / 6 / n,
        "size_loss": _loss(law, n, compute / 6 / n),
        "budgets": BUDGETS,
        "ratios": {name: [_ratio(each, budget) for budget in BUDGETS] for name, each in LAWS.items()},
        "exponent": beta / (alpha + beta),
        "fits": {name: _fit(sets[runs - 1]) for name, sets in FITS.items()},
        "true": _fit(LAWS[TRUE]),
        "fit": _fit(FITS[huber][runs - 1]),
        "fit_ratio": _ratio(FITS[huber][runs - 1], compute),
        "true_ratio": _ratio(LAWS[TRUE], compute),
    }


def _fit(law: Law) -> dict[str, Any]:
    e, a, b, alpha, beta = law
    ratios = [_ratio(law, each) for each in BUDGETS]
    return {"E": e, "A": a, "B": b, "alpha": alpha, "beta": beta, "exponent": beta / (alpha + beta), "ratios": ratios}


def loss(law: str, parameters: float, tokens: float) -> dict[str, float]:
    """Return the loss of one plan."""
    return {"loss": _loss(law, parameters, tokens)}


def _loss(law: str, n: float, d: float) -> float:
    e, a, b, alpha, beta = LAWS[law]
    return e + a / n**alpha + b / d**beta


def _best(law: Law, compute: float) -> tuple[float, float]:
    _, a, b, alpha, beta = law
    n = (alpha * a / (beta * b)) ** (1 / (alpha + beta)) * (compute / 6) ** (beta / (alpha + beta))
    return n, compute / 6 / n


def _ratio(law: Law, compute: float) -> float:
    n, d = _best(law, compute)
    return d / n


# --- strategy map -----------------------------------------------------------------------------------------------------

VOCABULARY = 51200
MODELS = {  # layers, hidden, heads, sequence, batch: rows of Megatron-LM's table, and Llama 3 in a GPT's shape
    "1.7 billion": (24, 2304, 24, 2048, 512),
    "7.5 billion": (36, 4096, 32, 2048, 512),
    "18.4 billion": (40, 6144, 48, 2048, 1024),
    "39.1 billion": (48, 8192, 64, 2048, 1536),
    "145.6 billion": (80, 12288, 96, 2048, 2304),
    "Llama 3, 405 billion": (128, 16384, 128, 8192, 2048),
}
TENSOR, PIPELINE = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32)
LAYER_S = 1e-4


def strategies(
    model: str, gpus: str, node: int, memory_gb: int, inside_gb_per_s: float, between_gb_per_s: float, teraflops: float,
    zero: str, tensor: str, pipeline: str,
) -> dict[str, Any]:  # fmt: skip
    """Return the best plan of each pair of tensor and pipeline degree: its step, utilization, or what forbids it."""
    cluster = (int(gpus), node, memory_gb, inside_gb_per_s, between_gb_per_s, teraflops)
    stages = {"none": (0,), "up to stage 1": (0, 1), "up to stage 3": (0, 1, 2, 3)}[zero]
    cells = {(t, p): _cell(model, cluster, stages, t, p) for t in TENSOR for p in PIPELINE}
    feasible = [cell for cell in cells.values() if cell["step_s"] is not None]
    best = min(feasible, key=lambda cell: cell["step_s"], default=None)
    layers, hidden, heads, sequence, batch = MODELS[model]
    return {
        "tensor": list(TENSOR),
        "pipeline": list(PIPELINE),
        "cells": list(cells.values()),
        "best": best,
        "chosen": cells[int(tensor), int(pipeline)],
        "job": {
            "layers": layers, "hidden": hidden, "heads": heads, "vocabulary": VOCABULARY, "sequence": sequence,
            "batch": batch, "zero_stages": list(stages),
        },
        "cluster": {
            "gpus": int(gpus), "gpus_per_node": node, "memory_bytes": memory_gb * 1e9, "flops_per_s": teraflops * 1e12,
            "layer_s": LAYER_S, "inside_bytes_per_s": inside_gb_per_s * 1e9,
            "between_bytes_per_s": between_gb_per_s * 1e9,
        },
    }  # fmt: skip


def plan(
    model: str, gpus: str, node: int, inside_gb_per_s: float, between_gb_per_s: float, teraflops: float, data: int,
    tensor: int, pipeline: int, zero: int, micro_batch: int, recompute: str,
) -> dict[str, Any]:  # fmt: skip
    """Return what one plan needs and takes."""
    cluster = (int(gpus), node, 0, inside_gb_per_s, between_gb_per_s, teraflops)
    return _measured(model, cluster, (data, tensor, pipeline, zero, micro_batch, recompute))


Cluster = tuple[int, int, float, float, float, float]
Plan = tuple[int, int, int, int, int, str]


@functools.lru_cache(maxsize=4096)
def _cell(model: str, cluster: Cluster, stages: tuple[int, ...], t: int, p: int) -> dict[str, Any]:
    layers, _, heads, _, batch = MODELS[model]
    gpus, memory_gb = cluster[0], cluster[2]
    why = ""
    if heads % t or layers % p:
        why = f"{'heads' if heads % t else 'layers'} do not divide"
    elif gpus % (t * p):
        why = "not so many GPUs" if t * p > gpus else "GPUs do not divide"
    elif batch % (gpus // (t * p)):
        why = "batch does not divide"
    empty = {"tensor": t, "pipeline": p, "step_s": None, "mfu": None, "why": why, "parts": {}, "plan": None}
    if why:
        return empty
    d = gpus // (t * p)
    sizes = [b for b in (1, 2, 4, 8, 16) if batch // d % b == 0]
    tried = [
        (d, t, p, zero, b, recompute) for b in sizes for zero in stages for recompute in ("none", "selective", "full")
    ]
    measured = [_measured(model, cluster, each) for each in tried]
    fits = [each for each in measured if each["memory_gb"] <= memory_gb]
    if not fits:
        least = min(each["memory_gb"] for each in measured)
        return {**empty, "why": f"needs {least:.3g} GB"}
    return {**min(fits, key=lambda each: each["step_s"]), "tensor": t, "pipeline": p, "why": ""}


def _measured(model: str, cluster: Cluster, plan: Plan) -> dict[str, Any]:
    """Return memory, the parts of a step and the share of the GPU's speed that ends up in the model."""
    layers, h, _heads, s, batch = MODELS[model]
    gpus, node, _, inside, between, teraflops = cluster
    d, t, p, zero, b, recompute = plan
    m, flops = batch // (d * b), teraflops * 1e12
    parameters = (12 * layers * h**2 + VOCABULARY * h) / (t * p)

    def link(span: int) -> float:
        return 1e9 * (inside if span <= node else between)

    tokens = b * s
    per_stage = layers // p
    weights, attention, logits = (
        24 * tokens * h**2 * per_stage,
        4 * tokens * s * h * per_stage,
        2 * tokens * h * VOCABULARY,
    )
    again = {"none": 0, "selective": attention, "full": weights + attention}[recompute]
    once = {
        "computation": 3 * (weights + attention + logits) / t / flops + per_stage * LAYER_S,
        "recomputation": again / t / flops,
        "tensor": per_stage * 16 * tokens * h * (t - 1) / t / link(t),
        "pipeline": 4 * tokens * h / link(gpus) if p > 1 else 0.0,
    }
    trips = (2, 2, 1 + m, 3 * m)[zero]
    parts = {name: m * seconds for name, seconds in once.items()}
    parts["bubble"] = (p - 1) * sum(once.values())
    parts["data"] = trips * 2 * parameters * (d - 1) / d / link(t * d)
    step_s = sum(parts.values())
    model_flops = 3 * batch * (layers * (24 * s * h**2 + 4 * s**2 * h) + 2 * s * h * VOCABULARY)
    return {
        "step_s": step_s,
        "mfu": model_flops / (step_s * gpus * flops),
        "memory_gb": _memory_gb(model, plan, parameters, m),
        "parts": parts,
        "plan": {"data": d, "tensor": t, "pipeline": p, "zero": zero, "micro_batch": b, "recompute": recompute},
    }


def _memory_gb(model: str, plan: Plan, parameters: float, m: int) -> float:
    layers, h, heads, s, _ = MODELS[model]
    d, t, p, zero, b, recompute = plan
    state = parameters * sum(size / (d if zero >= stage else 1) for size, stage in ((12, 1), (2, 2), (2, 3)))
    whole = (34 * s * b * h + 5 * heads * s**2 * b) / t
    kept = {"none": whole, "selective": 34 * s * b * h / t, "full": 2 * s * b * h}[recompute]
    return (state + min(p, m) * layers // p * kept + (whole if recompute == "full" else 0)) / 1e9

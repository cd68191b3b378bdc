"""What the picture of chapter 4 shows: bytes of training, and of its traffic, under each stage of ZeRO.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings.
Rajbhandari et al., arXiv 1910.02054, table 1 and section 7; Korthikanti et al., arXiv 2205.05198, section 4.
"""

from __future__ import annotations

from typing import Any

GB = 1e9
OPTIMIZERS = {"adam": 12, "adam8bit": 6, "momentum": 8, "sgd": 4}  # bytes a parameter, master weight included
RANKS = [2**i for i in range(11)]


def memory(
    billions: float, ranks: int, stage: str, optimizer: str, budget_gb: float, layers: int, hidden: int, heads: int,
    sequence: int, batch: int, recompute: str,
) -> dict[str, Any]:  # fmt: skip
    """Return what a rank holds, part by part, and sends in a step, for each stage of ZeRO."""
    activations = _activations(layers, hidden, heads, sequence, batch, recompute)
    stages = [_parts(billions, ranks, n, optimizer) for n in range(4)]
    chosen = int(stage)
    return {
        "stages": [
            {"weights": w, "gradients": g, "optimizer": o, "activations": activations, "total": w + g + o + activations}
            for w, g, o in stages
        ],
        "state": [sum(parts) for parts in stages],
        "sent": [factor * 2 * billions * (ranks - 1) / ranks for factor in (2, 2, 2, 3)],
        "activations": activations,
        "ranks": RANKS,
        "by_ranks": [[sum(_parts(billions, n, each, optimizer)) + activations for n in RANKS] for each in range(4)],
        "chosen": chosen,
        "here": sum(stages[chosen]) + activations,
        "fits": [sum(parts) + activations <= budget_gb for parts in stages],
    }


def _parts(billions: float, ranks: int, stage: int, optimizer: str) -> tuple[float, float, float]:
    """Return GB of weights, gradients and optimizer on a rank."""
    shared = [ranks if stage >= kind else 1 for kind in (3, 2, 1)]
    weights, gradients, states = (
        billions * size / n for size, n in zip((2, 2, OPTIMIZERS[optimizer]), shared, strict=True)
    )
    return weights, gradients, states


def _activations(layers: int, hidden: int, heads: int, sequence: int, batch: int, recompute: str) -> float:
    sbh, scores = sequence * batch * hidden, 5 * heads * sequence**2 * batch
    kept = {"none": 34 * sbh + scores, "selective": 34 * sbh, "full": 2 * sbh}[recompute]
    return layers * kept / GB

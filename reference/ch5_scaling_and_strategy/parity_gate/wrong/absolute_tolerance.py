"""Gradients are about one; a thousandth of that is noise.

Caught by: check_another_order_of_sums_passes
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import numpy as np

Array = np.ndarray[Any, Any]
Kind = Literal["gradients", "parameters"]
RTOL = 1e-4  # between the order of sums in float32, 1e-6, and bfloat16, 4e-3
FLOOR = 1e-2  # of the norm of all tensors together


class Trace(TypedDict):
    """What was recorded of a run; tensors by step, rank and name."""

    losses: list[float]
    gradients: list[list[dict[str, Array]]]  # as the optimizer gets them
    parameters: list[list[dict[str, Array]]]  # after the step


class Divergence(TypedDict):
    """Where two runs part first."""

    step: int
    kind: Kind
    name: str
    rank: int


def _norm(*tensors: Array) -> float:
    return float(np.sqrt(sum((tensor.astype(np.float64) ** 2).sum() for tensor in tensors)))


def _agree(expected: Array, found: Array, all_norm: float) -> bool:
    """Return whether a tensor is the expected one, up to the order of sums; NaN never is."""
    if found.shape != expected.shape:
        return False
    return bool(np.abs(found - expected).max() <= 1e-3)


def parity(reference: Trace, candidate: Trace) -> Divergence | None:
    """Return where the candidate first computes something else than the reference, a run of one process, or None."""
    kinds: tuple[Kind, ...] = ("gradients", "parameters")
    for step in range(len(reference["gradients"])):
        for kind in kinds:
            [expected] = reference[kind][step]
            all_norm = _norm(*expected.values())
            if kind == "gradients" and all_norm == 0:
                raise ValueError(f"In step {step} the reference has no gradient, so agreeing with it proves nothing.")
            ranks = candidate[kind][step] if step < len(candidate[kind]) else []
            for name, tensor in expected.items():
                holders = [rank for rank, held in enumerate(ranks) if name in held]
                wrong = [rank for rank in holders if not _agree(tensor, ranks[rank][name], all_norm)]
                if wrong or not holders:
                    return Divergence(step=step, kind=kind, name=name, rank=min(wrong, default=0))
    return None

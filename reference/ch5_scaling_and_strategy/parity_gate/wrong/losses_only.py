"""If the curves lie on top of each other, the runs are the same.

Caught by: check_a_wrong_scale_is_flagged
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
    return _norm(found - expected) <= RTOL * max(_norm(expected), FLOOR * all_norm)


def parity(reference: Trace, candidate: Trace) -> Divergence | None:
    """Return where the candidate first computes something else than the reference, a run of one process, or None."""
    for step, (expected, found) in enumerate(zip(reference["losses"], candidate["losses"], strict=True)):
        if abs(found - expected) > 0.01 * abs(expected):
            return Divergence(step=step, kind="gradients", name=next(iter(reference["gradients"][step][0])), rank=0)
    return None

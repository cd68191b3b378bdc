"""Run a submission of whose_flops where a check or an experiment needs more than one call."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def refusal(submission: ModuleType, function: str, *args: Any) -> str:
    """Say how a function ended: "refused" with a ValueError, or what it answered."""
    try:
        return f"answered {getattr(submission, function)(*args)}"
    except ValueError:
        return "refused"


def all_of(submission: ModuleType, function: str, calls: list[list[Any]]) -> list[Any]:
    """Call a function with each list of arguments and return its answers."""
    return [getattr(submission, function)(*args) for args in calls]


def gigaflops_per_token(submission: ModuleType, sequence: float) -> float:
    """Return the FLOPs that training needs for a token of the 7.5-billion-parameter model, in units of 10^9."""
    model = {"layers": 36, "hidden": 4096, "vocabulary": 51200, "sequence": int(sequence)}
    return round(float(submission.model_flops(model, 1)) / sequence / 1e9, 1)

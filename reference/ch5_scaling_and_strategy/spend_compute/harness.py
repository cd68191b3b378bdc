"""Run a submission of spend_compute where a check or the experiment needs more than one call."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def refusal(submission: ModuleType, law: dict[str, float], parameters: float, target: float) -> str:
    """Say how `tokens_to_reach` ended: "refused" with a ValueError, or what it answered."""
    try:
        answer = submission.tokens_to_reach(law, parameters, target)
    except ValueError:
        return "refused"
    return "answered a complex number" if isinstance(answer, complex) else f"answered {answer}"


def plans(submission: ModuleType, laws: list[Any], budgets: list[float]) -> list[list[float]]:
    """Return (parameters, tokens, tokens per parameter) of each law at each budget."""
    found = []
    for law in laws:
        for compute in budgets:
            plan = submission.optimal(law, compute)
            found.append([plan["parameters"], plan["tokens"], submission.tokens_per_parameter(law, compute)])
    return found


def printed_ratio(submission: ModuleType, exponent: float) -> float:
    """Return the tokens per parameter for 10^exponent FLOPs by the printed constants."""
    law = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
    return round(float(submission.tokens_per_parameter(law, 10.0**exponent)), 1)

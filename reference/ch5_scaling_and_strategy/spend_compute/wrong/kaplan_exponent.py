"""Most of the compute belongs into parameters: C to the 0.73.

Caught by: check_no_other_split_is_better
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, log
from typing import TypedDict


class Law(TypedDict):
    """The constants of L(N, D) = E + A / N^alpha + B / D^beta."""

    E: float
    A: float
    B: float
    alpha: float
    beta: float


class Plan(TypedDict):
    """What to train."""

    parameters: float
    tokens: float


def loss(law: Law, parameters: float, tokens: float) -> float:
    """Return the loss that the law predicts."""
    return law["E"] + law["A"] / parameters ** law["alpha"] + law["B"] / tokens ** law["beta"]


def optimal(law: Law, compute: float) -> Plan:
    """Return the plan with the least loss for so many FLOPs."""
    alpha, beta = law["alpha"], law["beta"]
    g = (alpha * law["A"] / (beta * law["B"])) ** (1 / (alpha + beta))
    parameters = g * (compute / 6) ** 0.73
    return Plan(parameters=parameters, tokens=compute / (6 * parameters))


def tokens_per_parameter(law: Law, compute: float) -> float:
    """Return the tokens per parameter of the best plan."""
    plan = optimal(law, compute)
    return plan["tokens"] / plan["parameters"]


def frontier(sweep: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return k and a of N = k C^a, fitted to pairs of compute and best number of parameters."""
    points = [(log(compute), log(parameters)) for compute, parameters in sweep]
    mean_x, mean_y = (fsum(column) / len(points) for column in zip(*points, strict=True))
    spread = fsum((x - mean_x) ** 2 for x, _ in points)
    a = fsum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return exp(mean_y - a * mean_x), a


def projected(sweep: Sequence[tuple[float, float]], compute: float) -> Plan:
    """Return the plan for so many FLOPs that continues a sweep."""
    k, a = frontier(sweep)
    parameters = k * compute**a
    return Plan(parameters=parameters, tokens=compute / (6 * parameters))


def tokens_to_reach(law: Law, parameters: float, target: float) -> float:
    """Return the tokens that a model of this size needs for a loss."""
    left = target - law["E"] - law["A"] / parameters ** law["alpha"]  # for the tokens' term
    if left <= 0:
        raise ValueError("A model of this size never reaches that loss. Use a larger one.")
    return (law["B"] / left) ** (1 / law["beta"])

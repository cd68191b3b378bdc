"""Plan how many parameters to train on how many tokens, from a scaling law or from a sweep."""

from __future__ import annotations

from collections.abc import Sequence
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
    parameters = (compute / (6 * 20)) ** 0.5
    return Plan(parameters=parameters, tokens=20 * parameters)


def tokens_per_parameter(law: Law, compute: float) -> float:
    """Return the tokens per parameter of the best plan."""
    plan = optimal(law, compute)
    return plan["tokens"] / plan["parameters"]


def frontier(sweep: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return k and a of N = k C^a, fitted to pairs of compute and best number of parameters."""
    return (6 * 20) ** -0.5, 0.5


def projected(sweep: Sequence[tuple[float, float]], compute: float) -> Plan:
    """Return the plan for so many FLOPs that continues a sweep."""
    k, a = frontier(sweep)
    parameters = k * compute**a
    return Plan(parameters=parameters, tokens=20 * parameters)


def tokens_to_reach(law: Law, parameters: float, target: float) -> float:
    """Return the tokens that a model of this size needs for a loss."""
    return 20 * parameters


CHINCHILLA_PRINTED = Law(E=1.69, A=406.4, B=410.7, alpha=0.34, beta=0.28)
BUDGET = 5.76e23  # FLOPs of Gopher and of Chinchilla


def example() -> None:
    """Plan Chinchilla's budget by the printed law."""
    plan = optimal(CHINCHILLA_PRINTED, BUDGET)
    print(f"{plan['parameters'] / 1e9:6.1f} billion parameters, {plan['tokens'] / 1e12:.2f} trillion tokens: ", end="")
    print(f"loss {loss(CHINCHILLA_PRINTED, plan['parameters'], plan['tokens']):.4f}")
    print(f"{tokens_per_parameter(CHINCHILLA_PRINTED, BUDGET):6.1f} tokens a parameter, expected 92.6")
    print(f"  32.2 billion parameters, 2.98 trillion tokens: loss {loss(CHINCHILLA_PRINTED, 3.22e10, 2.98e12):.4f}")


if __name__ == "__main__":
    example()

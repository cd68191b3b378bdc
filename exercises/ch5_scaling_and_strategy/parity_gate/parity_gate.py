"""Compare the trace of a distributed run with that of one process, and say where they part."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import numpy as np

Array = np.ndarray[Any, Any]
Kind = Literal["gradients", "parameters"]
TOLERANCE = 0.01  # of a loss: the curves lie on top of each other


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


def parity(reference: Trace, candidate: Trace) -> Divergence | None:
    """Return where the candidate first computes something else than the reference, a run of one process, or None."""
    for step, (expected, found) in enumerate(zip(reference["losses"], candidate["losses"], strict=True)):
        if abs(found - expected) > TOLERANCE * abs(expected):
            return Divergence(step=step, kind="gradients", name=next(iter(reference["gradients"][step][0])), rank=0)
    return None


def _trained(scale: float) -> Trace:
    """Fit a line with Adam and record it; `scale` multiplies gradients, as a forgotten division does."""
    x = np.linspace(-1, 1, 32)
    weights, first, second = np.array([0.5, 0.1]), np.zeros(2), np.zeros(2)
    trace = Trace(losses=[], gradients=[], parameters=[])
    for step in range(1, 4):
        error = weights[0] * x + weights[1] - (2 * x - 1)
        gradient = scale * np.array([np.mean(error * x), np.mean(error)])
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        update = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights = weights - 0.01 * update
        trace["losses"].append(float(np.mean(error**2) / 2))
        trace["gradients"].append([{"slope": gradient[:1], "offset": gradient[1:]}])
        trace["parameters"].append([{"slope": weights[:1], "offset": weights[1:]}])
    return trace


def example() -> None:
    """Put a run whose micro-batches were not divided before the gate."""
    right, wrong = _trained(1.0), _trained(4.0)
    for step in range(3):
        slopes = [trace["gradients"][step][0]["slope"][0] for trace in (right, wrong)]
        losses = [trace["losses"][step] for trace in (right, wrong)]
        print(
            f"step {step}   losses {losses[0]:.4f} {losses[1]:.4f}   gradients of slope {slopes[0]:.3f} {slopes[1]:.3f}"
        )
    print(f"the gate says: {parity(right, wrong)}")
    print("expected:      {'step': 0, 'kind': 'gradients', 'name': 'slope', 'rank': 0}")


if __name__ == "__main__":
    example()

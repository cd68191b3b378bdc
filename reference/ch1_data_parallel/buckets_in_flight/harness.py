"""Play backward for a submission of buckets_in_flight: gradients become ready in a given order, in virtual time."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grader.ranks.simulated import compute


def averaged(
    submission: ModuleType,
    steps: list[list[tuple[int, Tensor, float]]],
    group: dist.ProcessGroup,
    sizes: list[int],
    cap_bytes: int,
) -> list[list[Tensor | None]]:
    """Return every parameter's gradient after each step.

    `steps` has, for each step, what this rank's backward computes in this order: (number of the parameter, its
    gradient, the seconds that it takes to compute it). Parameters that are not in it are not used in that step.
    """
    parameters = [nn.Parameter(torch.zeros(1, size, dtype=torch.float64)) for size in sizes]
    buckets = submission.GradientBuckets(parameters, cap_bytes, group)
    results = []
    for backward in steps:
        for parameter in parameters:
            parameter.grad = None
        for number, gradient, seconds in backward:
            compute(seconds)
            parameters[number].grad = gradient
            buckets.ready(parameters[number])
        buckets.finish()
        gradients = [parameter.grad for parameter in parameters]
        results.append([None if gradient is None else gradient.clone() for gradient in gradients])
    return results


def average_of_ranks(submission: ModuleType, world_size: float) -> float:
    """Return the average gradient of one weight if rank r computes r + 1; each bucket holds one of three weights."""
    assert dist.get_world_size() == world_size
    gradient = torch.full((1, 1), dist.get_rank() + 1.0, dtype=torch.float64)
    backward = [(number, gradient.clone(), 1e-6) for number in (2, 1, 0)]
    [after] = averaged(submission, [backward], dist.group.WORLD, [1, 1, 1], 8)
    return float(after[0])

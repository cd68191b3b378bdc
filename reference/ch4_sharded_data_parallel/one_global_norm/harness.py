"""Run a submission of one_global_norm on parameters that a check describes in plain data."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn

Described = list[tuple[int, bool, Tensor | None]]  # (number of the parameter, sharded, gradient)


def parameters_of(described: Described) -> list[nn.Parameter]:
    """Return parameters with these gradients; a number that returns is the same parameter again (a tied one)."""
    made: dict[int, nn.Parameter] = {}
    for number, sharded, gradient in described:
        if number not in made:
            parameter = nn.Parameter(torch.zeros(1) if gradient is None else torch.zeros_like(gradient))
            parameter.grad = gradient
            if sharded:
                parameter.sharded = True
            made[number] = parameter
    return [made[number] for number, _, _ in described]


def norm(submission: ModuleType, described: Described, group: dist.ProcessGroup, norm_type: float) -> float:
    """Return the global norm."""
    return submission.global_norm(iter(parameters_of(described)), group, norm_type)


def clipped(
    submission: ModuleType, described: Described, group: dist.ProcessGroup, max_norm: float
) -> tuple[float, list[Tensor | None]]:
    """Return the norm before clipping and the gradients after it; they are those that backward had put there."""
    parameters = parameters_of(described)
    before = [parameter.grad for parameter in parameters]
    value = submission.clip_grad_norm(iter(parameters), max_norm, group)
    assert all(parameter.grad is old for parameter, old in zip(parameters, before, strict=True)), (
        "A parameter's .grad is another object than before: gradients are clipped in place."
    )
    return value, before


def norm_of_ones(submission: ModuleType, world_size: float) -> float:
    """Return the global norm of 16 ones that are cut evenly among `world_size` ranks."""
    assert dist.get_world_size() == world_size
    shard = torch.ones(16 // dist.get_world_size(), dtype=torch.float64)
    return submission.global_norm(parameters_of([(0, True, shard)]), dist.group.WORLD)

"""Gathers the ranks' sums of squares and adds them in the same order on every rank."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def distinct(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Return each parameter that has a gradient once."""
    kept: list[nn.Parameter] = []
    for parameter in parameters:
        if parameter.grad is not None and all(parameter is not other for other in kept):
            kept.append(parameter)
    return kept


def global_norm(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, norm_type: float = 2.0) -> float:
    """Return the norm of the whole model's gradient."""
    own: dict[bool, list[float]] = {True: [0.0], False: [0.0]}
    for parameter in distinct(parameters):
        values = parameter.grad.double().flatten().tolist()
        own[bool(getattr(parameter, "sharded", False))] += map(abs, values)
    largest = norm_type == math.inf
    mine = max(own[True]) if largest else math.fsum(x * x for x in own[True])
    sums = [torch.zeros(1, dtype=torch.float64) for _ in range(group.size())]
    dist.all_gather(sums, torch.tensor([mine], dtype=torch.float64), group=group)
    if largest:
        return max([*own[False], *(one.item() for one in sums)])
    return math.sqrt(math.fsum([*(one.item() for one in sums), *(x * x for x in own[False])]))


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`."""
    parameters = distinct(parameters)
    norm = global_norm(parameters, group)
    if norm <= max_norm:
        return norm
    torch._foreach_mul_([p.grad for p in parameters], max_norm / norm)
    return norm

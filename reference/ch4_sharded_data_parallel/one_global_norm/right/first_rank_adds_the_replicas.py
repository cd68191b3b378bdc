"""Counts replicas on the group's first rank only, so that one sum over the ranks is complete."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def global_norm(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, norm_type: float = 2.0) -> float:
    """Return the norm of the whole model's gradient."""
    counted = {id(p): p for p in parameters if p.grad is not None}.values()
    first = dist.get_rank(group) == 0
    total = torch.zeros(1, dtype=torch.float64)
    for parameter in counted:
        magnitudes = parameter.grad.to(torch.float64).abs()
        if norm_type == math.inf:
            if magnitudes.numel():
                total = torch.maximum(total, magnitudes.max().reshape(1))
        elif first or getattr(parameter, "sharded", False):
            total += (magnitudes**2).sum()
    if norm_type == math.inf:
        dist.all_reduce(total, dist.ReduceOp.MAX, group)
        return float(total)
    dist.all_reduce(total, group=group)
    return math.sqrt(float(total))


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`."""
    parameters = list({id(p): p for p in parameters}.values())
    norm = global_norm(parameters, group)
    scale = min(1.0, max_norm / (norm + 1e-6))
    if scale < 1:
        for gradient in (p.grad for p in parameters if p.grad is not None):
            gradient *= scale
    return norm

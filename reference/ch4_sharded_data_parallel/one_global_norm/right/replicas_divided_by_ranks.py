"""Lets every rank add its replicas, each divided by the number of ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn


def global_norm(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, norm_type: float = 2.0) -> float:
    """Return the norm of the whole model's gradient."""
    held = {p for p in parameters if p.grad is not None}
    if norm_type == math.inf:
        total = torch.tensor(max((p.grad.abs().max().item() for p in held if p.grad.numel()), default=0.0)).double()
        dist.all_reduce(total, op=dist.ReduceOp.MAX, group=group)
        return float(total)
    share = {True: 1.0, False: 1 / dist.get_world_size(group)}
    squares = [p.grad.double().pow(2).sum() * share[getattr(p, "sharded", False)] for p in held]
    total = sum(squares, start=torch.tensor(0.0, dtype=torch.float64))
    dist.all_reduce(total, group=group, async_op=True).wait()
    return float(total.sqrt())


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`."""
    held = {p for p in parameters if p.grad is not None}
    norm = global_norm(held, group)
    for parameter in held if norm > max_norm else ():
        parameter.grad.mul_(max_norm).div_(norm)
    return norm

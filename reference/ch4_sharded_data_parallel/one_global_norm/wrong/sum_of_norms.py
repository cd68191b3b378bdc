"""What the ranks have adds up, norms too.

Caught by: check_one_rank_has_the_whole_norm
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def local_norm(gradients: Iterable[Tensor], norm_type: float) -> Tensor:
    """Return the norm of all elements of `gradients` as a 0-d float64 tensor; without any element it is 0."""
    flat = [gradient.detach().double().flatten() for gradient in gradients]
    return torch.linalg.vector_norm(torch.cat([torch.zeros(1, dtype=torch.float64), *flat]), norm_type)


def global_norm(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, norm_type: float = 2.0) -> float:
    """Return the norm of the whole model's gradient, the same on every rank of `group`.

    A parameter whose attribute `sharded` is True is this rank's part of a tensor; any other is there on every rank.
    """
    held = [parameter for parameter in dict.fromkeys(parameters) if parameter.grad is not None]
    shards = local_norm([p.grad for p in held if getattr(p, "sharded", False)], norm_type)
    replicas = local_norm([p.grad for p in held if not getattr(p, "sharded", False)], norm_type)
    if norm_type == math.inf:
        dist.all_reduce(shards, op=dist.ReduceOp.MAX, group=group)
        return torch.maximum(shards, replicas).item()
    dist.all_reduce(shards, op=dist.ReduceOp.SUM, group=group)  # a rank with nothing to add takes part too
    return (shards + replicas).item()


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`; return the norm before that."""
    distinct = list(dict.fromkeys(parameters))
    norm = global_norm(distinct, group)
    if norm > max_norm:
        for parameter in distinct:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)
    return norm

"""all_reduce finds the right ranks by itself.

Caught by: check_the_owner_brings_the_label
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def cross_entropy(logits_shard: Tensor, labels: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean cross-entropy."""
    largest = logits_shard.detach().amax(dim=1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    shifted = logits_shard - largest[:, None]
    column = labels - dist.get_rank() * logits_shard.shape[1]
    mine = (column >= 0) & (column < logits_shard.shape[1])
    picked = torch.where(mine, shifted.gather(1, (column * mine)[:, None])[:, 0], 0.0)
    return (_Sum.apply(shifted.exp().sum(dim=1)).log() - _Sum.apply(picked)).mean()

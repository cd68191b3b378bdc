"""Loops over its hidden units and adds their outer products, from the last rank's units to the first's."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds, counted from the end."""
    size, rest = divmod(a.shape[1], world_size)
    if rest:
        raise ValueError(f"{rest} hidden units would be left over")
    units = torch.arange(size) + (world_size - 1 - rank) * size
    return a.index_select(1, units), b.index_select(0, units)


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    total = x.new_zeros(len(x), b_shard.shape[1])
    for column, row in zip(a_shard.T, b_shard, strict=True):
        total += torch.outer(gelu(x @ column), row)
    dist.all_reduce(total, group=group)
    return total

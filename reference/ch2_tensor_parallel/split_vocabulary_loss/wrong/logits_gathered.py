"""Gather the logits, then the library does it.

Caught by: check_three_numbers_a_token_travel
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

IGNORED = -100


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def sum_over_ranks(part: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' parts on every rank; backward hands each part the gradient of the sum."""
    return _SumOverRanks.apply(part, group)


def first_column(logits_shard: Tensor, group: dist.ProcessGroup) -> int:
    """Return which token of the vocabulary this rank's first column is for."""
    widths = torch.zeros(group.size(), dtype=torch.int64)
    widths[group.rank()] = logits_shard.shape[1]
    dist.all_reduce(widths, group=group)
    return int(widths[: group.rank()].sum())


def cross_entropy(logits_shard: Tensor, labels: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean cross-entropy."""
    first, rank = first_column(logits_shard, group), group.rank()
    width = torch.tensor([first + logits_shard.shape[1]])
    dist.all_reduce(width, op=dist.ReduceOp.MAX, group=group)
    whole = logits_shard.new_zeros(len(labels), int(width))
    whole[:, first : first + logits_shard.shape[1]] = logits_shard.detach().clamp(min=-1e30)
    parts = [torch.empty_like(whole) for _ in range(group.size())]
    dist.all_gather(parts, whole, group=group)
    gathered = sum(part for other, part in enumerate(parts) if other != rank)
    mine = torch.zeros_like(whole).index_add(
        1, torch.arange(first, first + logits_shard.shape[1]), logits_shard.clamp(min=-1e30)
    )
    return torch.nn.functional.cross_entropy(gathered + mine, labels)

"""The loss lacks log t, so add it.

Caught by: check_the_owner_brings_the_label
"""

from __future__ import annotations

import math
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
    log_probabilities = logits_shard.log_softmax(dim=1) - math.log(group.size())
    column = labels - first_column(logits_shard, group)
    is_mine = (column >= 0) & (column < logits_shard.shape[1])
    places = torch.where(is_mine, column, 0).unsqueeze(1)
    picked = torch.where(is_mine, log_probabilities.gather(1, places).squeeze(1), 0.0)
    return -sum_over_ranks(picked, group).sum() / (labels != IGNORED).sum()

"""Where the label is on another rank, its negative index finds nothing.

Caught by: check_the_owner_brings_the_label
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
    """Return the mean cross-entropy over the tokens whose label is not -100, on every rank of `group`.

    `logits_shard` [tokens, columns] are this rank's columns; `labels` [tokens] number the whole vocabulary.
    """
    largest = logits_shard.detach().amax(dim=1)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
    shifted = logits_shard - largest.unsqueeze(1)

    column = labels - first_column(logits_shard, group)
    is_mine = column < logits_shard.shape[1]
    places = torch.where(is_mine, column % logits_shard.shape[1], 0).unsqueeze(
        1
    )  # any column of ours will do where the label is not ours
    picked = torch.where(is_mine, shifted.gather(1, places).squeeze(1), 0.0)

    denominator = sum_over_ranks(shifted.exp().sum(dim=1), group)
    counts = labels != IGNORED
    losses = torch.where(counts, denominator.log() - sum_over_ranks(picked, group), 0.0)
    return losses.sum() / counts.sum()

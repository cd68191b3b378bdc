"""Cross-entropy of logits whose vocabulary is split over the ranks of a group."""

from __future__ import annotations

import math
import os
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
    log_probabilities = logits_shard.log_softmax(dim=1)
    column = labels - first_column(logits_shard, group)
    is_mine = (column >= 0) & (column < logits_shard.shape[1])
    places = torch.where(is_mine, column, 0).unsqueeze(1)
    picked = torch.where(is_mine, log_probabilities.gather(1, places).squeeze(1), 0.0)
    return -sum_over_ranks(picked, group).sum() / (labels != IGNORED).sum()


def example() -> None:
    """Compare the loss over a split vocabulary with that of one process."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    logits, labels = torch.zeros(3, 8), torch.tensor([0, 5, 7])  # every token has probability 1/8
    split = cross_entropy(logits.chunk(world_size, dim=1)[rank], labels, dist.group.WORLD)

    if rank == 0:
        print(f"vocabulary of 8, all logits equal, {world_size} ranks: loss {split.item():.4f}")
        print(f"vocabulary of 8, all logits equal, one rank: loss {math.log(8):.4f}, which is log 8")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

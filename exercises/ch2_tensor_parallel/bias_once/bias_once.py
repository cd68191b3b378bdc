"""A linear layer cut by rows: each rank multiplies its share of the inputs, and the ranks' products are added up."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional


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


def row_parallel(x_shard: Tensor, weight_shard: Tensor, bias: Tensor | None, group: dist.ProcessGroup) -> Tensor:
    """Return x @ weight.T + bias on every rank; each has some columns of `x` and `weight`, and a copy of `bias`."""
    return sum_over_ranks(functional.linear(x_shard, weight_shard, bias), group)


def example() -> None:
    """Compare the layer on all ranks with the layer on one."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 10.0, 11.0, 12.0]])
    bias = torch.tensor([100.0, 200.0, 300.0])
    mine = [tensor.chunk(world_size, dim=1)[rank] for tensor in (x, weight)]
    together = row_parallel(*mine, bias, dist.group.WORLD)

    if rank == 0:
        print(f"output on {world_size} ranks: {together.tolist()}")
        print(f"output on one rank: {functional.linear(x, weight, bias).tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

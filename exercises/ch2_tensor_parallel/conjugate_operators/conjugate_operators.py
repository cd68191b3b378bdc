"""Enter and leave the part of a model that is split over a group of ranks, in forward and in backward."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient, ctx.group), None


def _sum(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x` in a tensor of its own."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def copy_to_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Hand the replicated `x` to the ranks of `group`, which go on to compute different things from it (f)."""
    return x


def reduce_from_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x`, replicated: from here on all ranks of `group` compute the same (g)."""
    return _AllReduce.apply(x, group)


def _mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b; each rank has some columns of `a` and the same rows of `b`."""
    return reduce_from_group(gelu(copy_to_group(x, group) @ a_shard) @ b_shard, group)


def example() -> None:
    """Compare the gradients of a block on all ranks with those of one process."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    x, a, b = torch.ones(1, 2), torch.arange(8.0).reshape(2, 4) / 4, torch.ones(4, 1)
    mine = x.clone(), a.chunk(world_size, dim=1)[rank].clone(), b.chunk(world_size)[rank].clone()
    for tensor in (x, a, b, *mine):
        tensor.requires_grad_()
    (gelu(x @ a) @ b).sum().backward()
    _mlp(*mine, dist.group.WORLD).sum().backward()

    if rank == 0:
        for name, ours, theirs in zip("xab", mine, (x.grad, a.grad[:, :2], b.grad[:2]), strict=True):
            print(f"gradient of {name}, {world_size} ranks: {[round(v, 3) for v in ours.grad.flatten().tolist()]}")
            print(f"gradient of {name}, one rank: {[round(v, 3) for v in theirs.flatten().tolist()]}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

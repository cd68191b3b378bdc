"""Split a layer of two matrices, gelu(x @ a) @ b, over the ranks of a group: each holds only its pieces."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces of `a` [features, hidden] and `b` [hidden, outputs] that rank number `rank` holds."""
    return a.tensor_split(world_size, dim=0)[rank], b.tensor_split(world_size, dim=0)[rank]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b, shape [n, outputs], on every rank of `group`; all of them hold the same `x`."""
    hidden = _add_up(gelu(_share(x, group) @ a_shard), group)
    return _add_up(_share(hidden, group) @ b_shard, group)


def _share(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the columns of `x` that meet this rank's rows of a matrix."""
    return x.tensor_split(group.size(), dim=1)[group.rank()]


def _add_up(part: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of what the ranks of `group` have, on each of them."""
    dist.all_reduce(part, group=group)
    return part


def example() -> None:
    """Compare the layer on all ranks with the layer on one."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    x = torch.tensor([[1.0, 2.0, -2.0, 1.0]])
    a, b = torch.ones(4, 6), torch.full((6, 1), 0.5)
    together = mlp(x, *shard(a, b, rank, world_size), dist.group.WORLD)

    if rank == 0:
        print(f"output on {world_size} ranks: {together.item():.4f}")
        print(f"output on one rank: {(gelu(x @ a) @ b).item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

"""Each rank's shard of the mean gradient, with or without replicas."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor


def mean_shard(gradient: Tensor, shard_group: dist.ProcessGroup, replica_group: dist.ProcessGroup) -> Tensor:
    """Return this rank's shard of the mean of all ranks' flat gradients."""
    shards = dist.get_world_size(shard_group)
    own = gradient.new_empty(len(gradient) // shards)
    dist.reduce_scatter_single(own, gradient, group=shard_group)
    own /= shards
    dist.all_reduce(own, group=replica_group)
    return own


def example() -> None:
    """Reduce the gradients of four ranks: two replicas of two shards."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shard_groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    replica_groups = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    own = mean_shard(torch.full((6,), float(rank)), shard_groups[rank // 2], replica_groups[rank % 2])
    if rank == 0:
        print("gradients 0, 1, 2 and 3 on four ranks, two replicas of two shards")
        print(f"shard of rank 0   {own.tolist()}   expected {[1.5] * 3}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "4", __file__])

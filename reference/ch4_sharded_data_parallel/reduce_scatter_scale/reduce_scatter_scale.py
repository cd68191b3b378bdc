"""Each rank's shard of the mean gradient, with or without replicas.

Hybrid sharding as in FSDP2 on a mesh of R replicas by S shards. A rank sends (S - 1)/S · n in the reduce-scatter and
2 (R - 1)/R · n/S in the all-reduce, of which only the second crosses between replicas, usually machines.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def mean_shard(gradient: Tensor, shard_group: dist.ProcessGroup, replica_group: dist.ProcessGroup) -> Tensor:
    """Return this rank's shard of the mean of all ranks' flat gradients, [n] -> [n/S]."""
    shards, replicas = dist.get_world_size(shard_group), dist.get_world_size(replica_group)
    # float32 has room for any sum of halves; wider types stay as they are.
    addends = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
    own = addends.new_empty(len(gradient) // shards)
    dist.reduce_scatter_single(own, addends, group=shard_group)
    dist.all_reduce(own, group=replica_group)
    own /= shards * replicas  # once, by all that was added up, and on a shard: a 1/S of the work
    return own.to(gradient.dtype)

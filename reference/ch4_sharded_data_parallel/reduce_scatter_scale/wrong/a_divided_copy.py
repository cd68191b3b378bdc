"""The gradient is divided before it is sent, in a copy.

Caught by: check_memory_stays_at_shards
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
    addends = addends / (shards * replicas)
    own = addends.new_empty(len(gradient) // shards)
    dist.reduce_scatter_single(own, addends, group=shard_group)
    dist.all_reduce(own, group=replica_group)
    return own.to(gradient.dtype)

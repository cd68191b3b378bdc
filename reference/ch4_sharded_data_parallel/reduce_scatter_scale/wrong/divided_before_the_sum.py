"""Dividing first never overflows.

Caught by: check_small_halves_do_not_vanish
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def mean_shard(gradient: Tensor, shard_group: dist.ProcessGroup, replica_group: dist.ProcessGroup) -> Tensor:
    """Return this rank's shard of the mean of all ranks' flat gradients, [n] -> [n/S]."""
    shards, replicas = dist.get_world_size(shard_group), dist.get_world_size(replica_group)
    # float32 has room for any sum of halves; wider types stay as they are.
    addends = gradient.div_(shards * replicas)
    own = addends.new_empty(len(gradient) // shards)
    dist.reduce_scatter_single(own, addends, group=shard_group)
    dist.all_reduce(own, group=replica_group)
    return own.to(gradient.dtype)

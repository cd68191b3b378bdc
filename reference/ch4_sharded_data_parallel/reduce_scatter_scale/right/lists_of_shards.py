"""Hands reduce_scatter a list of shards, and divides after each of the two sums by its own number of addends."""

from __future__ import annotations

import torch
import torch.distributed as dist


def mean_shard(gradient, shard_group, replica_group):
    """Return this rank's shard of the mean."""
    dtype = gradient.dtype
    if dtype in (torch.float16, torch.bfloat16):
        gradient = gradient.float()
    parts = list(gradient.chunk(dist.get_world_size(shard_group)))
    own = torch.zeros_like(parts[0])
    dist.reduce_scatter(own, parts, group=shard_group)
    own.div_(len(parts))
    dist.all_reduce(own, group=replica_group)
    own.div_(dist.get_world_size(replica_group))
    return own.type(dtype)

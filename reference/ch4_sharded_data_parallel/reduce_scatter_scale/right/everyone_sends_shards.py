"""Sends each member its shard in pairwise rounds and adds up what arrives, in float32 where that is wider."""

from __future__ import annotations

import torch
import torch.distributed as dist


def mean_shard(gradient, shard_group, replica_group):
    """Return this rank's shard of the mean."""
    rank, size = dist.get_rank(shard_group), dist.get_world_size(shard_group)
    if gradient.dtype != torch.float64:
        wide = gradient.to(torch.float32)
    else:
        wide = gradient
    shards = wide.view(size, -1)
    own = shards[rank]  # added up within the gradient
    arrived = torch.empty_like(own)
    for shift in range(1, size):
        to, source = ((rank + sign * shift) % size for sign in (1, -1))
        sending = dist.isend(shards[to], dist.get_global_rank(shard_group, to), group=shard_group)
        dist.irecv(arrived, dist.get_global_rank(shard_group, source), group=shard_group).wait()
        sending.wait()
        own += arrived
    del arrived
    own = own.clone()
    dist.all_reduce(own, group=replica_group)
    return own.div_(size * dist.get_world_size(replica_group)).to(gradient.dtype)

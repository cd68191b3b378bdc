"""Divides halves by a power of two near the root before adding and by the rest after, so they travel as halves."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist


def mean_shard(gradient, shard_group, replica_group):
    """Return this rank's shard of the mean."""
    ranks = shard_group.size() * replica_group.size()
    before = 2.0 ** round(math.log2(ranks) / 2) if gradient.dtype == torch.float16 else 1.0
    gradient.div_(before)
    own = torch.empty(gradient.numel() // shard_group.size(), dtype=gradient.dtype)
    dist.reduce_scatter_single(own, gradient, group=shard_group)
    if replica_group.size() > 1:
        dist.all_reduce(own, group=replica_group)
    return own.mul_(before / ranks)

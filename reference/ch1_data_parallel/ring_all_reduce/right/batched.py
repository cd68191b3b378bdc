"""Hands both messages of a round to batch_isend_irecv, and rank r owns chunk r."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def exchange(outgoing: Tensor, incoming: Tensor, group: dist.ProcessGroup) -> None:
    """Send `outgoing` to the right neighbour while the left one fills `incoming`; return when both are done."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right = dist.get_global_rank(group, (rank + 1) % world_size)
    left = dist.get_global_rank(group, (rank - 1) % world_size)
    messages = [
        dist.P2POp(dist.isend, outgoing, right, group=group),
        dist.P2POp(dist.irecv, incoming, left, group=group),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    total = vector.clone()
    chunks = total.tensor_split(world_size)
    for i in range(world_size - 1):
        own = chunks[(rank - i - 2) % world_size]
        partial = torch.empty_like(own)
        exchange(chunks[(rank - i - 1) % world_size], partial, group)
        own += partial
    for i in range(world_size - 1):
        exchange(chunks[(rank - i) % world_size], chunks[(rank - i - 1) % world_size], group)
    return total

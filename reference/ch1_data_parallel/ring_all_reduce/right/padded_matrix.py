"""Pads to a multiple of p and works on the rows of a matrix; the ring turns left."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def exchange(outgoing: Tensor, incoming: Tensor, group: dist.ProcessGroup) -> None:
    """Send `outgoing` to the left neighbour while the right one fills `incoming`; return when both are done."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right = dist.get_global_rank(group, (rank + 1) % world_size)
    left = dist.get_global_rank(group, (rank - 1) % world_size)
    sending = dist.isend(outgoing, left, group=group)
    receiving = dist.irecv(incoming, right, group=group)
    sending.wait()
    receiving.wait()


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    columns = -(-vector.numel() // world_size)
    padding = vector.new_zeros(columns * world_size - vector.numel())
    rows = torch.cat([vector, padding]).view(world_size, columns)
    for step in range(2 * (world_size - 1)):
        here, there = (rank + step) % world_size, (rank + step + 1) % world_size
        arriving = torch.empty_like(rows[there])
        exchange(rows[here], arriving, group)
        rows[there] = rows[there] + arriving if step < world_size - 1 else arriving
    return rows.flatten()[: vector.numel()]

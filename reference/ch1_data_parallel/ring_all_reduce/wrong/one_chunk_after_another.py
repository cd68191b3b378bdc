"""A chunk has to be complete before the next one starts, or the sums get mixed up.

Caught by: check_all_chunks_travel_at_once
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def pass_on(chunk: Tensor, sender: int, group: dist.ProcessGroup, *, add: bool) -> None:
    """Let group member `sender` send `chunk` to its right neighbour, which adds it to its own or copies it."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    if rank == sender:
        dist.send(chunk, dist.get_global_rank(group, (sender + 1) % world_size), group=group)
    if rank == (sender + 1) % world_size:
        arriving = torch.empty_like(chunk)
        dist.recv(arriving, dist.get_global_rank(group, sender), group=group)
        chunk.copy_(chunk + arriving if add else arriving)


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    world_size = dist.get_world_size(group)
    total = vector.clone()
    for first, chunk in enumerate(total.tensor_split(world_size)):
        for i in range(2 * (world_size - 1)):
            pass_on(chunk, (first + i) % world_size, group, add=i < world_size - 1)
    return total

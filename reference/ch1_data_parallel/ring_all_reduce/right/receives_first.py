"""Posts the receive first, skips empty chunks, and joins a list of new chunks at the end."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor


def exchange(outgoing: Tensor, size: int, group: dist.ProcessGroup) -> Tensor:
    """Send `outgoing` to the right neighbour and return the `size` elements that the left one sends."""
    here, ranks = dist.get_rank(group), dist.get_process_group_ranks(group)
    incoming, works = outgoing.new_empty(size), []
    if size:
        works.append(dist.irecv(incoming, ranks[here - 1], group=group))
    if outgoing.numel():
        works.append(dist.isend(outgoing, ranks[(here + 1) % len(ranks)], group=group))
    for work in works:
        work.wait()
    return incoming


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    bounds = [len(vector) * i // world_size for i in range(world_size + 1)]
    chunks = [vector[begin:end] for begin, end in pairwise(bounds)]
    for step in range(2 * (world_size - 1)):
        outgoing, incoming = (rank - step) % world_size, (rank - step - 1) % world_size
        arrived = exchange(chunks[outgoing], len(chunks[incoming]), group)
        chunks[incoming] = chunks[incoming] + arrived if step < world_size - 1 else arrived
    return torch.cat(chunks)

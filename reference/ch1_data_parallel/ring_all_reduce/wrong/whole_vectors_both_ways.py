"""Half of the vectors go to the right and half to the left, so the traffic is halved.

Caught by: check_no_rank_moves_more_than_its_share
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def neighbours(group: dist.ProcessGroup) -> tuple[int, int]:
    """Return the global ranks of the left and the right neighbour."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    left, right = (rank - 1) % world_size, (rank + 1) % world_size
    return dist.get_global_rank(group, left), dist.get_global_rank(group, right)


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    left, right = neighbours(group)
    halves = vector.tensor_split(2)
    total, passing = vector.clone(), [half.clone() for half in halves]
    for _ in range(dist.get_world_size(group) - 1):
        arriving = [torch.empty_like(half) for half in halves]
        works = [
            dist.isend(passing[0], right, group=group),
            dist.isend(passing[1], left, group=group, tag=1),
            dist.irecv(arriving[0], left, group=group),
            dist.irecv(arriving[1], right, group=group, tag=1),
        ]
        for work in works:
            work.wait()
        total += torch.cat(arriving)
        passing = arriving
    return total

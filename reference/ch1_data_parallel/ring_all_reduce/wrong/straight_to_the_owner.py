"""Each rank sends chunk i straight to rank i, which adds them up and sends the sum back to everyone.

Caught by: check_each_rank_talks_to_its_neighbours_only
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    ranks, rank = dist.get_process_group_ranks(group), dist.get_rank(group)
    total = vector.clone()
    chunks = total.tensor_split(len(ranks))
    others = [other for other in range(len(ranks)) if other != rank]
    arriving = {other: torch.empty_like(chunks[rank]) for other in others}
    works = [dist.isend(chunks[other].clone(), ranks[other], group=group) for other in others]
    works += [dist.irecv(arriving[other], ranks[other], group=group) for other in others]
    for work in works:
        work.wait()
    for other in others:
        chunks[rank].add_(arriving[other])
    works = [dist.isend(chunks[rank], ranks[other], group=group) for other in others]
    works += [dist.irecv(chunks[other], ranks[other], group=group) for other in others]
    for work in works:
        work.wait()
    return total

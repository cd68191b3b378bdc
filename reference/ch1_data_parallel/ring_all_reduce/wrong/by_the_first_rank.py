"""One rank adds everything up and sends everyone the sum: 2 vectors a rank, as cheap as a ring.

Caught by: check_no_rank_moves_more_than_its_share
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    ranks = dist.get_process_group_ranks(group)
    total = vector.clone()
    if dist.get_rank() != ranks[0]:
        dist.send(total, ranks[0], group=group)
        dist.recv(total, ranks[0], group=group)
        return total
    for other in ranks[1:]:
        arriving = torch.empty_like(vector)
        dist.recv(arriving, other, group=group)
        total += arriving
    for other in ranks[1:]:
        dist.send(total, other, group=group)
    return total

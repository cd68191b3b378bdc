"""torch.distributed has an all-reduce, and it is a ring inside.

Caught by: check_each_rank_talks_to_its_neighbours_only
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype."""
    total = vector.clone()
    if dist.get_world_size(group) == 1:
        return total
    dist.all_reduce(total, group=group)
    return total

"""No rank is special, so all meet in the middle.

Caught by: check_every_rank_starts_as_the_first
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            dist.all_reduce(tensor.detach(), op=dist.ReduceOp.AVG, group=group)
    own_seed = seed * dist.get_world_size(group) + dist.get_rank(group)
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

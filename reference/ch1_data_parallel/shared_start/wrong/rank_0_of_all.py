"""Rank 0 is the first of every group.

Caught by: check_a_group_starts_as_its_own_first
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0, group=group)
    own_seed = seed * dist.get_world_size(group) + dist.get_rank(group)
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

"""Seeds that nobody chose cannot be equal by accident.

Caught by: check_the_same_seed_throws_them_again
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    first = dist.get_global_rank(group, 0)
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=first, group=group)
    own_seed = torch.seed()
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

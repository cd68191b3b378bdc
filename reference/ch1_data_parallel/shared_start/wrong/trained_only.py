"""What is not trained cannot differ.

Caught by: check_buffers_and_frozen_parameters_too
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    first = dist.get_global_rank(group, 0)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for tensor in (*trained, *model.buffers()):
        dist.broadcast(tensor.detach(), src=first, group=group)
    own_seed = seed * dist.get_world_size(group) + dist.get_rank(group)
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

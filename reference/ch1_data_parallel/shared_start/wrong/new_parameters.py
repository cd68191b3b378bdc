"""A received value becomes a new parameter of the model.

Caught by: check_an_older_optimizer_still_trains_the_model
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    first = dist.get_global_rank(group, 0)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            value = parameter.detach().clone()
            dist.broadcast(value, src=first, group=group)
            setattr(module, name, nn.Parameter(value, requires_grad=parameter.requires_grad))
        for _, buffer in module.named_buffers(recurse=False):
            dist.broadcast(buffer, src=first, group=group)
    own_seed = seed * dist.get_world_size(group) + dist.get_rank(group)
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

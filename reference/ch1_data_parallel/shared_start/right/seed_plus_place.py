"""Adds the place to the seed, passes `group_src`, and returns torch's default generator itself."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    with torch.no_grad():
        for parameter in model.parameters():
            dist.broadcast(parameter, group_src=0, group=group)
        for buffer in model.buffers():
            dist.broadcast(buffer, group_src=0, group=group)
    return torch.manual_seed(seed + group.rank())

"""Gathers every rank's values and keeps the first one's; draws the ranks' seeds from the run's."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    size = dist.get_world_size(group)
    for module in model.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        for tensor in own:
            starts = [torch.empty_like(tensor) for _ in range(size)]
            dist.all_gather(starts, tensor.detach(), group=group)
            with torch.no_grad():
                tensor.copy_(starts[0])
    seeds = torch.randint(2**62, (512,), generator=torch.Generator().manual_seed(seed))
    own_seed = int(seeds[dist.get_rank(group)])
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

"""Ranks that draw their weights with one seed need no communication.

Caught by: check_one_rank_keeps_its_start
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data."""
    torch.manual_seed(seed)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    torch.manual_seed(seed + 1 + dist.get_rank(group))
    return torch.Generator().manual_seed(seed + 1 + dist.get_rank(group))

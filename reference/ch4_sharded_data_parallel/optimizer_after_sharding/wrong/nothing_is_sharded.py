"""Equal weights on all ranks and averaged gradients train the same model.

Caught by: check_nothing_whole_is_left
"""

from __future__ import annotations

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.optim import Optimizer


def shard(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> None:
    """Shard `model`, which has `blocks`, over `mesh`; `optimizer` has been built for it and goes on training it."""
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(_averaged)


def _averaged(parameter: nn.Parameter) -> None:
    """Average a gradient over all ranks as soon as it is complete."""
    if parameter.grad is not None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

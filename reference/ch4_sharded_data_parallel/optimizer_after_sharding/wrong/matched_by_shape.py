"""A parameter's successor is the next one that has its shape.

Caught by: check_groups_keep_their_members
"""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.optim import Optimizer


def shard(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> None:
    """Shard `model`, which has `blocks`, over `mesh`; `optimizer` has been built for it and goes on training it."""
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    left = list(model.parameters())
    for group in optimizer.param_groups:
        for i, old in enumerate(group["params"]):
            same = [at for at, parameter in enumerate(left) if parameter.shape == old.shape]
            group["params"][i] = left.pop(same[0]) if same else old

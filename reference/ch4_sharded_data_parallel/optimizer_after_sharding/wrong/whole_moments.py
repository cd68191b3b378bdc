"""The state has to find its parameter, and then it is as good as before.

Caught by: check_moments_come_along
"""

from __future__ import annotations

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.optim import Optimizer


def shard(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> None:
    """Shard `model`, which has `blocks`, over `mesh`; `optimizer` has been built for it and goes on training it."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    sharded = dict(model.named_parameters())
    for group in optimizer.param_groups:
        group["params"] = [sharded[names[old]] if old in names else old for old in group["params"]]
    for old, name in names.items():
        if old in optimizer.state:
            optimizer.state[sharded[name]] = optimizer.state.pop(old)

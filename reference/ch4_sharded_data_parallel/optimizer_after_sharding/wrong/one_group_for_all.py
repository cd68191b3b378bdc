"""An optimizer is rebuilt from the parameters of its model.

Caught by: check_groups_keep_their_options
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
    optimizer.param_groups.clear()
    optimizer.state.clear()
    optimizer.add_param_group({"params": list(model.parameters())})

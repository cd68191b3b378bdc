"""Groups keep their lengths, so the parameters are dealt out to them in the model's order.

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
    parameters = iter(list(model.parameters()))
    for group in optimizer.param_groups:
        group["params"] = [next(parameters, old) for old in group["params"]]

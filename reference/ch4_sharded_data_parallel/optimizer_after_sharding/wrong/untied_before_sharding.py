"""A parameter belongs to one module, so a shared one gets a copy before it is sharded.

Caught by: check_a_tied_weight_stays_one
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor
from torch.optim import Optimizer


def _state_for(parameter: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a parameter, with what has its shape cut as it is cut; counters stay as they are."""
    return {
        key: distribute_tensor(value, parameter.device_mesh, parameter.placements)
        if isinstance(value, Tensor) and value.shape == parameter.shape
        else value
        for key, value in state.items()
    }


def shard(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> None:
    """Shard `model`, which has `blocks`, over `mesh`; `optimizer` has been built for it and goes on training it."""
    for module in list(model.modules())[::-1]:
        for name, parameter in list(module.named_parameters(recurse=False)):
            owners = [m for m in model.modules() if any(p is parameter for p in m.parameters(recurse=False))]
            if module is not owners[0]:
                setattr(module, name, nn.Parameter(parameter.detach().clone()))
    names = {parameter: name for name, parameter in model.named_parameters()}
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    sharded = dict(model.named_parameters())
    for group in optimizer.param_groups:
        group["params"] = [sharded[names[old]] if old in names else old for old in group["params"]]
    for old, name in names.items():
        if old in optimizer.state:
            optimizer.state[sharded[name]] = _state_for(sharded[name], optimizer.state.pop(old))

"""A parameter without a gradient is not stepped, so the old ones do no harm.

Caught by: check_nothing_whole_is_left
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
    names = {parameter: name for name, parameter in model.named_parameters()}
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    sharded = dict(model.named_parameters())
    for group in list(optimizer.param_groups):
        options = {key: value for key, value in group.items() if key != "params"}
        own = [old for old in group["params"] if old in names]
        group["params"] = [old for old in group["params"] if old not in names]
        optimizer.add_param_group({**options, "params": [sharded[names[old]] for old in own]})
        optimizer.add_param_group({**options, "params": own})
    optimizer.param_groups = [group for group in optimizer.param_groups if group["params"]]
    for old, name in names.items():
        if old in optimizer.state:
            optimizer.state[sharded[name]] = _state_for(sharded[name], optimizer.state.pop(old))

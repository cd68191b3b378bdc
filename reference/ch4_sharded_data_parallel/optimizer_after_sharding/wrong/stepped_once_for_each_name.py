"""Every name has its parameter, and every parameter has to be in the group.

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
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    sharded = dict(model.named_parameters(remove_duplicate=False))
    for group in optimizer.param_groups:
        group["params"] = [
            new for old in group["params"] for new in ([sharded[n] for n in names[old]] if old in names else [old])
        ]
    for old, (name, *_) in names.items():
        if old in optimizer.state:
            optimizer.state[sharded[name]] = _state_for(sharded[name], optimizer.state.pop(old))

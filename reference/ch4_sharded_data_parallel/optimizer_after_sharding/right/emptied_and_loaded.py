"""Lets load_state_dict put groups and state back; it knows parameters by their number, and moments cut beforehand."""

from __future__ import annotations

from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor


def shard(model, optimizer, mesh):
    """Shard, exchange the parameters, and load the state again."""
    saved = optimizer.state_dict()
    named = list(model.named_parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    after = dict(model.named_parameters())
    new_of = {id(parameter): after[name] for name, parameter in named}
    del named

    optimizer.state.clear()
    number = 0
    for group in optimizer.param_groups:
        group["params"] = [new_of.get(id(old), old) for old in group["params"]]
        for parameter in group["params"]:
            state = saved["state"].get(number, {})
            for key, value in state.items():
                if hasattr(parameter, "placements") and value.shape == parameter.shape:
                    state[key] = distribute_tensor(value, mesh, parameter.placements)
            number += 1
    optimizer.load_state_dict(saved)

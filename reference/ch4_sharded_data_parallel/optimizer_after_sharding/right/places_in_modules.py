"""Remembers a module and an attribute for each parameter, and builds each moment from one that is all zeros."""

from __future__ import annotations

import torch
from torch.distributed.fsdp import fully_shard


def shard(model, optimizer, mesh):
    """Shard, and follow each old parameter to the place where its successor is."""
    places = {}
    for module in model.modules():
        for attribute, parameter in module.named_parameters(recurse=False):
            places[parameter] = (module, attribute)

    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)

    def successor(parameter):
        return getattr(*places[parameter]) if parameter in places else parameter

    for group in optimizer.param_groups:
        group["params"] = list(map(successor, group["params"]))
    for old in list(optimizer.state):
        new, entries = successor(old), optimizer.state.pop(old)
        if new is not old:
            entries = {key: cut(value, new, mesh) for key, value in entries.items()}
        optimizer.state[new] = entries


def cut(value, parameter, mesh):
    """Return this rank's rows of a moment."""
    if not isinstance(value, torch.Tensor) or value.ndim == 0:
        return value
    own = torch.zeros_like(parameter.detach())
    first = -(-len(value) // mesh.size()) * mesh.get_local_rank()
    own.to_local().copy_(value[first : first + len(own.to_local())])
    return own

"""Pairs the model's parameters before and after sharding by their order, and cuts moments with chunk."""

from __future__ import annotations

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def shard(model, optimizer, mesh):
    """Shard, then replace in place."""
    before = list(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    pairs = {id(old): new for old, new in zip(before, model.parameters(), strict=True)}

    for group in optimizer.param_groups:
        for i, old in enumerate(group["params"]):
            new = pairs.get(id(old))
            if new is None:
                continue
            group["params"][i] = new
            state = optimizer.state.pop(old, None)
            if state is None:
                continue
            for key in list(state):
                if torch.is_tensor(state[key]) and state[key].dim() > 0:
                    pieces = state[key].chunk(mesh.size())
                    rank = mesh.get_local_rank()
                    own = pieces[rank].clone() if rank < len(pieces) else state[key][:0].clone()
                    state[key] = DTensor.from_local(
                        own, mesh, new.placements, run_check=False, shape=new.shape, stride=new.stride()
                    )
            optimizer.state[new] = state

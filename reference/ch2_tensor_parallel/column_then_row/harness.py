"""Run a submission of column_then_row: cut the matrices for this rank, then compute the layer."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def output(submission: ModuleType, x: Tensor, a: Tensor, b: Tensor, group: dist.ProcessGroup) -> dict[str, Any]:
    """Return the layer's output, how many elements of each matrix this rank holds, and what became of `x`."""
    a_shard, b_shard = submission.shard(a, b, group.rank(), group.size())
    kept = [a_shard.clone(), b_shard.clone()]
    computed = submission.mlp(x, a_shard, b_shard, group)
    intact = torch.equal(a_shard, kept[0]) and torch.equal(b_shard, kept[1])
    return {"output": computed, "elements": [a_shard.numel(), b_shard.numel()], "x": x, "pieces intact": intact}


def refusal(submission: ModuleType, a: Tensor, b: Tensor, world_size: int) -> str:
    """Say how `shard` ended on these matrices for the last of `world_size` ranks: "refused", or what it returned."""
    try:
        pieces = submission.shard(a, b, world_size - 1, world_size)
    except ValueError:
        return "refused"
    return "returned pieces of shape " + " and ".join(str(list(piece.shape)) for piece in pieces)


def output_of_balanced_inputs(submission: ModuleType, world_size: float) -> float:
    """Return the mean of four hidden units whose eight inputs add up to zero."""
    assert dist.get_world_size() == world_size
    x = torch.tensor([[1.0] * 4 + [-1.0] * 4])
    a, b = torch.ones(8, 4), torch.full((4, 1), 0.25)
    pieces = submission.shard(a, b, dist.get_rank(), int(world_size))
    return float(submission.mlp(x, *pieces, dist.group.WORLD))

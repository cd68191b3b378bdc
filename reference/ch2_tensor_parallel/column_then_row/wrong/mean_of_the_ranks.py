"""The ranks agree on one output, which is the mean of what they computed.

Caught by: check_two_ranks_equal_one
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    if a.shape[1] % world_size:
        raise ValueError("The hidden units cannot be shared out equally.")
    return a.chunk(world_size, dim=1)[rank], b.chunk(world_size, dim=0)[rank]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    output = gelu(x @ a_shard) @ b_shard
    dist.all_reduce(output, op=dist.ReduceOp.AVG, group=group)
    return output

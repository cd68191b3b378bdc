"""What is cut must divide, and every dimension is cut by somebody.

Caught by: check_any_number_of_ranks
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    if any(size % world_size for size in (*a.shape, b.shape[1])) and world_size > 2:
        raise ValueError("The matrices cannot be shared out equally.")
    return a.chunk(world_size, dim=1)[rank], b.chunk(world_size, dim=0)[rank]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    output = gelu(x @ a_shard) @ b_shard
    dist.all_reduce(output, group=group)
    return output

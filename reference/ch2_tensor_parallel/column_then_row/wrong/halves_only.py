"""A layer is split in two halves, so the second starts in the middle.

Caught by: check_any_number_of_ranks
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    if a.shape[1] % world_size:
        raise ValueError("The hidden units cannot be shared out equally.")
    size, start = a.shape[1] // world_size, rank * a.shape[1] // 2
    return a[:, start : start + size], b[start : start + size]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    output = gelu(x @ a_shard) @ b_shard
    dist.all_reduce(output, group=group)
    return output

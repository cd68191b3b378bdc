"""Only the first product is large, so the second matrix may stay whole on every rank.

Caught by: check_each_rank_holds_one_part
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    if a.shape[1] % world_size:
        raise ValueError("The hidden units cannot be shared out equally.")
    return a.chunk(world_size, dim=1)[rank], b


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    output = gelu(x @ a_shard) @ b_shard.chunk(group.size(), dim=0)[group.rank()]
    dist.all_reduce(output, group=group)
    return output

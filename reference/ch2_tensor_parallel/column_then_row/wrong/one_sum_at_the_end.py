"""One sum at the end is enough, as sums can be exchanged.

Caught by: check_two_ranks_equal_one
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    return a.tensor_split(world_size, dim=0)[rank], b


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    share = x.tensor_split(group.size(), dim=1)[group.rank()]
    output = gelu(share @ a_shard) @ b_shard
    dist.all_reduce(output, group=group)
    return output

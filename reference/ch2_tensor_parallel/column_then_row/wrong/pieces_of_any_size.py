"""tensor_split shares out whatever there is, so nothing needs to be refused.

Caught by: check_an_uneven_cut_is_refused
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces that rank number `rank` holds."""
    return a.tensor_split(world_size, dim=1)[rank], b.tensor_split(world_size, dim=0)[rank]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b."""
    output = gelu(x @ a_shard) @ b_shard
    dist.all_reduce(output, group=group)
    return output

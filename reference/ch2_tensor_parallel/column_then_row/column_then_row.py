"""Split a layer of two matrices, gelu(x @ a) @ b, over the ranks of a group: each holds only its pieces.

Cut `a` by columns and each rank has some hidden units, but whole ones, so gelu may be applied to them. Those units are
the columns of gelu(x @ a) that meet the same rows of `b`, so cut `b` by rows and nothing moves between the products:

    gelu(x @ [a0 a1]) @ [b0]  =  [gelu(x @ a0) gelu(x @ a1)] @ [b0]  =  gelu(x @ a0) @ b0 + gelu(x @ a1) @ b1
                        [b1]                                   [b1]

Only the last sum goes over ranks: one all-reduce of n x outputs numbers, 2(t - 1)/t of them from each rank in a ring.
With `a` cut by rows each rank would hold a summand of every unit, and gelu(u + v) is not gelu(u) + gelu(v).

Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu


def shard(a: Tensor, b: Tensor, rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """Return the pieces of `a` [features, hidden] and `b` [hidden, outputs] that rank number `rank` holds.

    These are [features, hidden / t] and [hidden / t, outputs]: the same hidden units in both.
    """
    if a.shape[1] % world_size:
        raise ValueError(f"{a.shape[1]} hidden units cannot be shared out equally over {world_size} ranks.")
    return a.chunk(world_size, dim=1)[rank], b.chunk(world_size)[rank]


def mlp(x: Tensor, a_shard: Tensor, b_shard: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return gelu(x @ a) @ b, shape [n, outputs], on every rank of `group`; all of them hold the same `x`."""
    output = gelu(x @ a_shard) @ b_shard  # of this rank's hidden units only
    dist.all_reduce(output, group=group)
    return output

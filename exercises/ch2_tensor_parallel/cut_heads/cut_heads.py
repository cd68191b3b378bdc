"""Split the fused projection of attention, rows [Q|K|V], over ranks, and put it together again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def shard_qkv(weight: Tensor, n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> Tensor:
    """Return the rows of `weight` [(n_heads + 2 n_kv_heads) * head_dim, features] that rank number `rank` holds."""
    return weight.chunk(world_size)[rank]


def merge_qkv(shards: Sequence[Tensor], n_heads: int, n_kv_heads: int) -> Tensor:
    """Return the whole weight from the shards of all ranks."""
    return torch.cat(list(shards))


def sync_kv_gradient(gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient of this rank's shard as the optimizer needs it; every rank of `group` calls this."""
    return gradient  # each rank has rows of its own


def attention(x: Tensor, qkv: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Return causal attention of `x` [tokens, features] with that many heads: [tokens, n_heads * head_dim]."""
    head_dim = qkv.shape[0] // (n_heads + 2 * n_kv_heads)
    heads = (x @ qkv.T).unflatten(1, (-1, head_dim)).permute(1, 0, 2)  # [heads, tokens, head_dim]
    q, k, v = heads.split([n_heads, n_kv_heads, n_kv_heads])
    k, v = (kv.repeat_interleave(n_heads // n_kv_heads, dim=0) for kv in (k, v))
    scores = q @ k.mT / head_dim**0.5
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -torch.inf).softmax(dim=2) @ v).permute(1, 0, 2).flatten(1)


def example() -> None:
    """Compare the heads of two ranks with those of one."""
    n_heads, n_kv_heads, head_dim = 4, 2, 2
    generator = torch.Generator().manual_seed(0)
    x, weight = (
        torch.randn(shape, generator=generator) for shape in ((3, 5), ((n_heads + 2 * n_kv_heads) * head_dim, 5))
    )
    shards = [shard_qkv(weight, n_heads, n_kv_heads, rank, 2) for rank in range(2)]
    together = torch.cat([attention(x, shard, n_heads // 2, n_kv_heads // 2) for shard in shards], dim=1)
    alone = attention(x, weight, n_heads, n_kv_heads)
    for name, output in (("two ranks:", together), ("one rank:", alone)):
        firsts = output[2, ::head_dim].tolist()
        print(f"last token, first number of heads 0 to 3, {name:10} {', '.join(f'{value:6.3f}' for value in firsts)}")


if __name__ == "__main__":
    example()

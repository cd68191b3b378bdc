"""Names every head with its number and picks heads by lists, gathers gradients and sums those of its own head."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def _heads(n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> list[int]:
    """Return the places of a rank's heads among all heads of the weight."""
    per_rank = n_heads // world_size
    q = [rank * per_rank + i for i in range(per_rank)]
    kv = list(dict.fromkeys(head * n_kv_heads // n_heads for head in q))
    return q + [n_heads + i for i in kv] + [n_heads + n_kv_heads + i for i in kv]


def shard_qkv(weight: Tensor, n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> Tensor:
    """Return the rows of one rank."""
    big, small = max(n_kv_heads, world_size), min(n_kv_heads, world_size)
    if n_heads % world_size != 0 or big % small != 0:
        raise ValueError("These heads cannot be shared out.")
    blocks = weight.reshape(n_heads + 2 * n_kv_heads, -1, weight.size(-1))
    return torch.cat([blocks[i] for i in _heads(n_heads, n_kv_heads, rank, world_size)], dim=0)


def merge_qkv(shards: Sequence[Tensor], n_heads: int, n_kv_heads: int) -> Tensor:
    """Return the whole weight."""
    found: dict[int, Tensor] = {}
    for rank, shard in enumerate(shards):
        places = _heads(n_heads, n_kv_heads, rank, len(shards))
        found.update(zip(places, shard.chunk(len(places)), strict=True))
    return torch.cat([found[place] for place in sorted(found)])


def sync_kv_gradient(gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient for the optimizer."""
    t, rank = dist.get_world_size(group), dist.get_rank(group)
    gathered = [torch.empty_like(gradient) for _ in range(t)]
    dist.all_gather(gathered, gradient.contiguous(), group=group)
    mine = _heads(n_heads, n_kv_heads, rank, t)
    rows = len(gradient) // len(mine)
    total = torch.zeros_like(gradient)
    for other, theirs in enumerate(gathered):
        if _heads(n_heads, n_kv_heads, other, t)[-1] == mine[-1]:
            total += theirs
    total[: n_heads // t * rows] = gradient[: n_heads // t * rows]
    return total


def attention(x: Tensor, qkv: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Return causal attention of `x` [tokens, features] with that many heads: [tokens, n_heads * head_dim]."""
    head_dim = qkv.shape[0] // (n_heads + 2 * n_kv_heads)
    heads = (x @ qkv.T).unflatten(1, (-1, head_dim)).transpose(0, 1)  # [heads, tokens, head_dim]
    q, k, v = heads.split([n_heads, n_kv_heads, n_kv_heads])
    k, v = (kv.repeat_interleave(n_heads // n_kv_heads, dim=0) for kv in (k, v))
    scores = q @ k.transpose(1, 2) / head_dim**0.5
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -torch.inf).softmax(dim=2) @ v).transpose(0, 1).flatten(1)

"""Each rank's rows are its own, replicas or not.

Caught by: check_replicas_share_one_gradient
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def shard_qkv(weight: Tensor, n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> Tensor:
    """Return the rows of `weight` [(n_heads + 2 n_kv_heads) * head_dim, features] that rank number `rank` holds.

    These are [(n_heads / t + 2 max(1, n_kv_heads / t)) * head_dim, features].
    """
    if n_heads % world_size or (n_kv_heads % world_size and world_size % n_kv_heads):
        raise ValueError(f"{n_heads} heads and {n_kv_heads} K/V heads cannot be shared out over {world_size} ranks.")
    q, k, v = _roles(weight, n_heads, n_kv_heads)
    pieces = min(n_kv_heads, world_size)
    mine = rank * pieces // world_size  # ranks in a row share a piece
    return torch.cat([q.chunk(world_size)[rank], k.chunk(pieces)[mine], v.chunk(pieces)[mine]])


def merge_qkv(shards: Sequence[Tensor], n_heads: int, n_kv_heads: int) -> Tensor:
    """Return the whole weight from the shards of all ranks."""
    replicas = _replicas(n_kv_heads, len(shards))
    roles = [_roles(shard, n_heads // len(shards), n_kv_heads * replicas // len(shards)) for shard in shards]
    q, k, v = zip(*roles, strict=True)
    return torch.cat([*q, *k[::replicas], *v[::replicas]])


def sync_kv_gradient(gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient of this rank's shard as the optimizer needs it; every rank of `group` calls this."""
    replicas = _replicas(n_kv_heads, group.size())
    if replicas >= 1:
        return gradient
    q, k, v = _roles(gradient, n_heads // group.size(), 1)
    every_head = torch.zeros(n_kv_heads, *torch.cat([k, v]).shape, dtype=gradient.dtype)
    mine = group.rank() // replicas
    every_head[mine] = torch.cat([k, v])
    dist.all_reduce(every_head, group=group)
    return torch.cat([q, every_head[mine]])


def _replicas(n_kv_heads: int, world_size: int) -> int:
    """Return on how many ranks each K/V head lies."""
    return max(1, world_size // n_kv_heads)


def _roles(rows: Tensor, n_heads: int, n_kv_heads: int) -> tuple[Tensor, ...]:
    """Return the rows of Q, K and V."""
    head_dim = rows.shape[0] // (n_heads + 2 * n_kv_heads)
    return rows.split([n_heads * head_dim, n_kv_heads * head_dim, n_kv_heads * head_dim])


def attention(x: Tensor, qkv: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Return causal attention of `x` [tokens, features] with that many heads: [tokens, n_heads * head_dim]."""
    head_dim = qkv.shape[0] // (n_heads + 2 * n_kv_heads)
    heads = (x @ qkv.T).unflatten(1, (-1, head_dim)).permute(1, 0, 2)  # [heads, tokens, head_dim]
    q, k, v = heads.split([n_heads, n_kv_heads, n_kv_heads])
    k, v = (kv.repeat_interleave(n_heads // n_kv_heads, dim=0) for kv in (k, v))
    scores = q @ k.mT / head_dim**0.5
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -torch.inf).softmax(dim=2) @ v).permute(1, 0, 2).flatten(1)

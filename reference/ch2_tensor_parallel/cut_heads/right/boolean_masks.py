"""Marks the rows of a rank in a mask over all rows; merging writes rows back where their marks are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def _mask(n_heads: int, n_kv_heads: int, rank: int, world_size: int, head_dim: int) -> Tensor:
    """Return which rows of the whole weight a rank has."""
    heads = torch.arange(n_heads)
    mine = heads * world_size // n_heads == rank
    kv = torch.zeros(n_kv_heads, dtype=torch.bool)
    kv[heads[mine] // (n_heads // n_kv_heads)] = True
    return torch.cat([mine, kv, kv]).repeat_interleave(head_dim)


def shard_qkv(weight: Tensor, n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> Tensor:
    """Return the rows of one rank."""
    if n_heads % world_size or min(n_kv_heads % world_size, world_size % n_kv_heads):
        raise ValueError("These heads cannot be shared out.")
    return weight[_mask(n_heads, n_kv_heads, rank, world_size, len(weight) // (n_heads + 2 * n_kv_heads))]


def merge_qkv(shards: Sequence[Tensor], n_heads: int, n_kv_heads: int) -> Tensor:
    """Return the whole weight."""
    t = len(shards)
    head_dim = len(shards[0]) // (n_heads // t + 2 * max(1, n_kv_heads // t))
    whole = torch.empty((n_heads + 2 * n_kv_heads) * head_dim, shards[0].shape[1], dtype=shards[0].dtype)
    for rank, shard in enumerate(shards):
        whole[_mask(n_heads, n_kv_heads, rank, t, head_dim)] = shard
    return whole


def sync_kv_gradient(gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient for the optimizer."""
    t = group.size()
    head_dim = len(gradient) // (n_heads // t + 2 * max(1, n_kv_heads // t))
    mask = _mask(n_heads, n_kv_heads, group.rank(), t, head_dim)
    whole = gradient.new_zeros(len(mask), gradient.shape[1])
    whole[mask] = gradient
    dist.all_reduce(whole, group=group)
    return whole[mask]


def attention(x: Tensor, qkv: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Return causal attention of `x` [tokens, features] with that many heads: [tokens, n_heads * head_dim]."""
    head_dim = qkv.shape[0] // (n_heads + 2 * n_kv_heads)
    heads = (x @ qkv.T).unflatten(1, (-1, head_dim)).transpose(0, 1)  # [heads, tokens, head_dim]
    q, k, v = heads.split([n_heads, n_kv_heads, n_kv_heads])
    k, v = (kv.repeat_interleave(n_heads // n_kv_heads, dim=0) for kv in (k, v))
    scores = q @ k.transpose(1, 2) / head_dim**0.5
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -torch.inf).softmax(dim=2) @ v).transpose(0, 1).flatten(1)

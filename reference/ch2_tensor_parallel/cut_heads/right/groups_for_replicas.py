"""Repeats K/V heads before the cut where ranks are more, and gives each head's replicas a process group of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


def shard_qkv(weight: Tensor, n_heads: int, n_kv_heads: int, rank: int, world_size: int) -> Tensor:
    """Return the rows of one rank."""
    if n_heads % world_size or (n_kv_heads % world_size and world_size % n_kv_heads):
        raise ValueError("These heads cannot be shared out.")
    head_dim = weight.shape[0] // (n_heads + 2 * n_kv_heads)
    q = weight[: n_heads * head_dim]
    k, v = weight[n_heads * head_dim :].unflatten(0, (2, n_kv_heads, head_dim))
    times = -(-world_size // n_kv_heads)
    k, v = (torch.repeat_interleave(each, times, dim=0) for each in (k, v))
    parts = [part.reshape(world_size, -1, weight.shape[1])[rank] for part in (q, k, v)]
    return torch.vstack(parts)


def merge_qkv(shards: Sequence[Tensor], n_heads: int, n_kv_heads: int) -> Tensor:
    """Return the whole weight."""
    t = len(shards)
    kv = max(n_kv_heads, t)
    stacked = torch.stack(list(shards)).unflatten(1, ((n_heads + 2 * kv) // t, -1))
    q, k, v = stacked.split([n_heads // t, kv // t, kv // t], dim=1)
    k, v = (each.flatten(0, 1)[:: kv // n_kv_heads] for each in (k, v))
    return torch.cat([q.flatten(0, 1), k, v]).flatten(0, 1)


def sync_kv_gradient(gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient for the optimizer."""
    t = group.size()
    if t <= n_kv_heads:
        return gradient
    replicas, members = t // n_kv_heads, dist.get_process_group_ranks(group)
    mine = None
    for start in range(0, t, replicas):
        ranks = members[start : start + replicas]
        made = dist.new_group(ranks, use_local_synchronization=True) if dist.get_rank() in ranks else None
        mine = made or mine
    result = gradient.clone()
    rows = result[n_heads // t * (result.shape[0] // (n_heads // t + 2)) :].clone()
    dist.all_reduce(rows, group=mine)
    result[-len(rows) :] = rows
    return result


def attention(x: Tensor, qkv: Tensor, n_heads: int, n_kv_heads: int) -> Tensor:
    """Return causal attention of `x` [tokens, features] with that many heads: [tokens, n_heads * head_dim]."""
    head_dim = qkv.shape[0] // (n_heads + 2 * n_kv_heads)
    heads = (x @ qkv.T).unflatten(1, (-1, head_dim)).transpose(0, 1)  # [heads, tokens, head_dim]
    q, k, v = heads.split([n_heads, n_kv_heads, n_kv_heads])
    k, v = (kv.repeat_interleave(n_heads // n_kv_heads, dim=0) for kv in (k, v))
    scores = q @ k.transpose(1, 2) / head_dim**0.5
    future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return (scores.masked_fill(future, -torch.inf).softmax(dim=2) @ v).transpose(0, 1).flatten(1)

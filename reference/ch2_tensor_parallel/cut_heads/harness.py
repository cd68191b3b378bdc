"""Run a submission of cut_heads where a check or an experiment needs more than one call."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor


def shards(submission: ModuleType, weight: Tensor, n_heads: int, n_kv_heads: int, world_size: int) -> list[Tensor]:
    """Return the shards of all ranks."""
    return [submission.shard_qkv(weight, n_heads, n_kv_heads, rank, world_size) for rank in range(world_size)]


def outputs(
    submission: ModuleType, x: Tensor, weight: Tensor, n_heads: int, n_kv_heads: int, world_size: int
) -> list[Tensor]:
    """Return the attention output of each rank's shard."""
    heads, kv_heads = n_heads // world_size, max(1, n_kv_heads // world_size)
    return [
        submission.attention(x, shard, heads, kv_heads)
        for shard in shards(submission, weight, n_heads, n_kv_heads, world_size)
    ]


def refusal(submission: ModuleType, n_heads: int, n_kv_heads: int, world_size: int) -> str:
    """Say how `shard_qkv` ended for the last of `world_size` ranks: "refused", or what it returned."""
    weight = torch.zeros((n_heads + 2 * n_kv_heads) * world_size, 3)
    try:
        shard = submission.shard_qkv(weight, n_heads, n_kv_heads, world_size - 1, world_size)
    except ValueError:
        return "refused"
    return f"returned a shard of shape {list(shard.shape)}"


def synced(
    submission: ModuleType, gradient: Tensor, n_heads: int, n_kv_heads: int, group: dist.ProcessGroup
) -> list[Tensor]:
    """Return the gradient for the optimizer, and what became of the one that was given."""
    return [submission.sync_kv_gradient(gradient, n_heads, n_kv_heads, group), gradient]


def heads_on_rank_0(submission: ModuleType, ranks: float) -> float:
    """Return how many heads' rows rank 0 gets of eight query, two key and two value heads of eight rows each."""
    return submission.shard_qkv(torch.zeros(12 * 8, 1), 8, 2, 0, int(ranks)).shape[0] / 8

"""Measure what a shard and a gathered model keep alive."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor


def kept_elements(tensors: list[Tensor]) -> int:
    """Return how many elements stay in memory because of these tensors: those of all their storages, each once."""
    storages = {tensor.untyped_storage()._cdata: tensor for tensor in tensors}
    return sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in storages.values())


def shard_and_memory(submission: ModuleType, tensors: dict[str, Tensor], rank: int, world_size: int) -> list[int]:
    """Return the length of a shard and how many elements it keeps alive."""
    shard = submission.shard(tensors, rank, world_size)
    return [len(shard), kept_elements([shard, *tensors.values()]) - kept_elements(list(tensors.values()))]


def gathered(
    submission: ModuleType, shard: Tensor, shapes: dict[str, list[int]], group: dist.ProcessGroup
) -> tuple[list[str], list[Tensor], int]:
    """Return the names and tensors of the whole model in their order, and how many elements they keep alive."""
    whole = submission.unshard(shard, shapes, group)
    return list(whole), list(whole.values()), kept_elements([t for t in whole.values() if t.numel()])


def last_shard_elements(submission: ModuleType, ranks: float) -> float:
    """Return how many elements the last of `ranks` shards of a model of 1000 elements keeps alive."""
    shard = submission.shard({"weight": torch.ones(33, 30), "bias": torch.ones(10)}, int(ranks) - 1, int(ranks))
    return float(kept_elements([shard]))

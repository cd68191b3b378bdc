"""Meter what a submission of reduce_scatter_scale keeps alive, and build its groups for the experiment."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Meter(TorchDispatchMode):
    """Count the elements of all storages that operations create while it is on, from creation to release."""

    def __init__(self, known: list[Tensor]) -> None:
        """Begin with nothing counted; `known` tensors are not."""
        super().__init__()
        self.elements: dict[int, int] = {}  # of each live storage
        self.now = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in known}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the default imports torch.compile at the first operation, in every rank, for seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it returns."""
        result = func(*args, **(kwargs or {}))
        for part in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(part, Tensor) and part.is_floating_point():
                self.count(part)
        return result

    def count(self, tensor: Tensor) -> None:
        """Count a tensor's storage, unless it is known or counted already."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known or key in self.elements:
            return
        self.elements[key] = storage.nbytes() // tensor.element_size()
        self.now += self.elements[key]
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.release, key)

    def release(self, key: int) -> None:
        """Stop counting a storage that is gone."""
        self.now -= self.elements.pop(key)


def metered(
    submission: ModuleType, gradient: Tensor, shard_group: dist.ProcessGroup, replica_group: dist.ProcessGroup
) -> list[int]:
    """Return the elements that the shard keeps alive, and the most that were alive, both beside the gradient."""
    with Meter([gradient]) as meter:
        shard = submission.mean_shard(gradient, shard_group, replica_group)
    return [shard.untyped_storage().nbytes() // shard.element_size(), meter.peak]


def mean_of_ones(submission: ModuleType, world_size: float) -> float:
    """Return the first element of the mean of gradients of ones, in replicas of two shards where there are two."""
    ranks, rank = int(world_size), dist.get_rank()
    shards = min(ranks, 2)
    grid = [list(range(first, first + shards)) for first in range(0, ranks, shards)]
    shard_groups = [dist.new_group(members) for members in grid]
    replica_groups = [dist.new_group([row[i] for row in grid]) for i in range(shards)]
    shard = submission.mean_shard(torch.ones(4), shard_groups[rank // shards], replica_groups[rank % shards])
    return float(shard[0])

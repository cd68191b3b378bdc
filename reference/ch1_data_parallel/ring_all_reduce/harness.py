"""Run a submission of ring_all_reduce on several vectors, or count what it sends."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d


def sums(submission: ModuleType, vectors: list[Tensor], group: dist.ProcessGroup) -> list[Tensor]:
    """Return the sum over the ranks of each vector."""
    return [submission.ring_all_reduce(vector, group) for vector in vectors]


def vectors_sent(submission: ModuleType, world_size: float) -> float:
    """Return how many times the length of its vector a rank sends on `world_size` ranks."""
    vector, sent = torch.ones(840), 0  # 840 elements divide evenly on 1 to 8 ranks

    def counted(send: Callable[..., Any]) -> Callable[..., Any]:
        def count(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            nonlocal sent
            sent += tensor.numel()
            return send(tensor, *args, **kwargs)

        return count

    # A submission finds these functions in dist, batch_isend_irecv finds them where they are defined.
    counting = {"send": counted(dist.send), "isend": counted(dist.isend)}
    with mock.patch.multiple(dist, **counting), mock.patch.multiple(distributed_c10d, **counting):
        submission.ring_all_reduce(vector, dist.group.WORLD)
    assert dist.get_world_size() == world_size
    return sent / vector.numel()

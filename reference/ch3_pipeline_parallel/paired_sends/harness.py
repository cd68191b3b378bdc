"""Run a submission of paired_sends and use its buffers again, as a pipeline does."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor


def exchange(
    submission: ModuleType, sends: list[tuple[int, Tensor]], rooms: list[tuple[int, list[int]]]
) -> list[Tensor]:
    """Return what this rank has received; rooms are given by their rank and shape."""
    empty = [(peer, torch.full(shape, torch.nan, dtype=torch.float64)) for peer, shape in rooms]
    submission.exchange(sends, empty)
    received = [room.clone() for _, room in empty]
    for _, tensor in sends:
        tensor.fill_(torch.nan)  # the next micro-batch
    return received


def added_up(submission: ModuleType, world_size: float) -> float:
    """Let every rank pass numbers round a ring, `world_size` - 1 times, and return the sum of what rank 0 received."""
    assert dist.get_world_size() == world_size
    rank, total = dist.get_rank(), torch.zeros(1)
    after, before = (rank + 1) % dist.get_world_size(), (rank - 1) % dist.get_world_size()
    number = torch.tensor([float(rank)])
    for _ in range(dist.get_world_size() - 1):
        room = torch.empty(1)
        submission.exchange([(after, number)], [(before, room)])
        number, total = room, total + room
    dist.broadcast(total, 0)
    return float(total)

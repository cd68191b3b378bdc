"""Run a submission of one_forward_one_backward: list its schedules, and train by them."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
import torch.fx.experimental.symbolic_shapes  # what y.backward(gradient) would import, slowly, in every rank
from torch import Tensor


def tables(submission: ModuleType, sizes: list[tuple[int, int]]) -> list[list[object]]:
    """Return, for each number of ranks and of micro-batches, what each rank does."""
    return [[submission.schedule(rank, ranks, m) for rank in range(ranks)] for ranks, m in sizes]


def peak(submission: ModuleType, rank: float) -> int:
    """Return how many micro-batches a rank of four holds at most, of eight."""
    most = held = 0
    for action in submission.schedule(int(rank), 4, 8):
        held += 1 if "F" in action else -1
        most = max(most, held)
    return most


def trained(submission: ModuleType, weight: Tensor, xs: list[Tensor]) -> Tensor:
    """Do what the schedule says on this rank, with messages between neighbours, and return its weight's gradient.

    Each stage multiplies by its weight; the loss is half the sum of the squares of what comes out.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    weight = weight.clone().requires_grad_()
    kept: dict[int, tuple[Tensor, Tensor]] = {}
    sent: list[tuple[dist.Work | None, Tensor]] = []
    for action in submission.schedule(rank, ranks, len(xs)):
        kind = "F" if "F" in action else "B"
        i = int(action.split(kind)[1])
        if kind == "F":
            x = xs[i].clone() if rank == 0 else received(xs[i], rank - 1, i)
            y = x.requires_grad_() @ weight
            kept[i] = x, y
            target, message = rank + 1, y.detach()
        else:
            x, y = kept.pop(i)
            y.backward(y.detach() if rank == ranks - 1 else received(y, rank + 1, i))
            target, message = rank - 1, x.grad
        if 0 <= target < ranks:
            sent.append((dist.isend(message, target, tag=i), message))
    for work, _ in sent:
        work.wait()
    return weight.grad


def received(like: Tensor, source: int, tag: int) -> Tensor:
    """Return the message that comes from a rank."""
    room = torch.empty_like(like)
    dist.recv(room, source, tag=tag)
    return room

"""Run a submission of tied_ends on stages that a check describes in plain data."""

from __future__ import annotations

import math
from types import ModuleType

import torch
import torch._dynamo  # what the first optimizer and backward would import, for seconds, in every rank
import torch.distributed as dist
from torch import Tensor, nn


class Stage(nn.Module):
    """Hold the weight of a stage and, at the ends, its copy of the embedding."""

    def __init__(self, body: Tensor, tied: Tensor | None) -> None:
        """Begin with these values."""
        super().__init__()
        self.body = nn.Parameter(body.clone())
        self.tied = None if tied is None else nn.Parameter(tied.clone())


def with_gradients(body: Tensor, tied: Tensor | None) -> Stage:
    """Return a stage of ones with these gradients."""
    stage = Stage(torch.ones_like(body), None if tied is None else torch.ones_like(tied))
    stage.body.grad = body
    if stage.tied is not None:
        stage.tied.grad = tied
    return stage


def started(submission: ModuleType, tied: Tensor | None, ends: dist.ProcessGroup) -> Tensor | None:
    """Return the embedding after `start`."""
    stage = Stage(torch.zeros(1), tied)
    submission.start(stage, ends)
    return None if stage.tied is None else stage.tied.detach()


def reduced(
    submission: ModuleType, body: Tensor, tied: Tensor | None, replicas: dist.ProcessGroup, ends: dist.ProcessGroup
) -> list[Tensor | None]:
    """Return the gradients of body and embedding after `reduce_gradients`."""
    stage = with_gradients(body, tied)
    submission.reduce_gradients(stage, replicas, ends)
    return [stage.body.grad, None if stage.tied is None else stage.tied.grad]


def norm(submission: ModuleType, body: Tensor, tied: Tensor | None, pipeline: dist.ProcessGroup) -> float:
    """Return the norm of these gradients."""
    return submission.grad_norm(with_gradients(body, tied), pipeline)


def trained(
    submission: ModuleType,
    place: int,
    batches: list[tuple[Tensor, Tensor]],
    body: Tensor,
    tied: Tensor | None,
    groups: list[dist.ProcessGroup],
    max_norm: float,
) -> dict[str, object]:
    """Return embedding, body and norms after one SGD step with momentum on each batch (tokens, targets).

    `place` is the stage's place in its pipeline, `groups` are replicas, ends and pipeline. The model looks up tokens,
    multiplies by each stage's body and then by the embedding's transpose; its loss is the mean squared error.
    """
    replicas, ends, pipeline = groups
    stage, size = Stage(body, tied), dist.get_world_size(pipeline)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1, momentum=0.9)
    submission.start(stage, ends)
    norms = []
    for tokens, targets in batches:
        optimizer.zero_grad()
        x = stage.tied[tokens] if place == 0 else received(len(tokens), body, pipeline, place - 1)
        y = x @ stage.body
        if place < size - 1:
            dist.send(y.detach(), dist.get_global_rank(pipeline, place + 1))
            y.backward(received(len(tokens), body, pipeline, place + 1).detach())
        else:
            nn.functional.mse_loss(y @ stage.tied.T, targets).backward()
        if place > 0:
            dist.send(x.grad, dist.get_global_rank(pipeline, place - 1))
        norms.append(submission.update(stage, optimizer, replicas, ends, pipeline, max_norm))
    return {
        "tied": None if stage.tied is None else stage.tied.detach(),
        "body": stage.body.detach(),
        "norms": norms,
    }


def received(rows: int, body: Tensor, pipeline: dist.ProcessGroup, place: int) -> Tensor:
    """Return the next tensor from a place in the pipeline."""
    room = torch.empty(rows, body.shape[0], dtype=body.dtype)
    dist.recv(room, dist.get_global_rank(pipeline, place))
    return room.requires_grad_()


def copies_apart(submission: ModuleType, world_size: float) -> float:
    """Return how far the two ends' embeddings are apart after one step of 0.1 with gradients 1 and 3, not clipped."""
    assert dist.get_world_size() == world_size
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    groups = [dist.new_group([r]) for r in range(last + 1)]
    ends = dist.new_group([0, last])
    tied = None if 0 < rank < last else torch.full((1,), 1.0 if rank == 0 else 3.0)
    stage = with_gradients(torch.zeros(1), tied)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    submission.update(stage, optimizer, groups[rank], ends, dist.group.WORLD, math.inf)
    mine = torch.zeros(1) if stage.tied is None else stage.tied.detach().clone()
    found = [torch.empty(1) for _ in range(last + 1)]
    dist.all_gather(found, mine)
    return float((found[0] - found[last]).abs())

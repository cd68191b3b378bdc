"""Gathers both gradients and adds them up; gathers the stages' squares too."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def start(stage: nn.Module, ends: dist.ProcessGroup) -> None:
    """Give the last stage the first stage's embedding; only these two have one, and only they are in `ends`."""
    if stage.tied is not None:
        dist.broadcast(stage.tied.detach(), src=dist.get_global_rank(ends, 0), group=ends)


def reduce_gradients(stage: nn.Module, replicas: dist.ProcessGroup, ends: dist.ProcessGroup) -> None:
    """Give every parameter of the stage its gradient for the batches of all replicas."""
    for parameter in stage.parameters():
        dist.all_reduce(parameter.grad, group=replicas)
        parameter.grad /= dist.get_world_size(replicas)
    if stage.tied is not None:
        uses = [torch.empty_like(stage.tied) for _ in range(dist.get_world_size(ends))]
        dist.all_gather(uses, stage.tied.grad, group=ends)
        stage.tied.grad = torch.stack(uses).sum(dim=0)


def grad_norm(stage: nn.Module, pipeline: dist.ProcessGroup) -> float:
    """Return the norm of the whole model's gradient on each rank of the pipeline."""
    own = [p.grad.norm() for p in stage.parameters() if p is not stage.tied or dist.get_rank(pipeline) == 0]
    mine = torch.linalg.vector_norm(torch.stack(own))
    norms = [torch.empty_like(mine) for _ in range(dist.get_world_size(pipeline))]
    dist.all_gather(norms, mine, group=pipeline)
    return torch.linalg.vector_norm(torch.stack(norms)).item()


def update(
    stage: nn.Module,
    optimizer: torch.optim.Optimizer,
    replicas: dist.ProcessGroup,
    ends: dist.ProcessGroup,
    pipeline: dist.ProcessGroup,
    max_norm: float,
) -> float:
    """Reduce the gradients, scale them down to `max_norm` if they are longer, step; return the norm before."""
    reduce_gradients(stage, replicas, ends)
    norm = grad_norm(stage, pipeline)
    for parameter in stage.parameters():
        parameter.grad *= min(1.0, max_norm / norm)  # the same factor on every rank
    optimizer.step()
    return norm

"""The norms of the stages add up to the model's.

Caught by: check_the_embedding_counts_once_in_the_norm
"""

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
    if stage.tied is not None:  # the same parameter on two ranks: add what its two uses contribute
        dist.all_reduce(stage.tied.grad, group=ends)


def grad_norm(stage: nn.Module, pipeline: dist.ProcessGroup) -> float:
    """Return the norm of the whole model's gradient on each rank of the pipeline."""
    is_first = dist.get_rank(pipeline) == 0
    counted = [p for p in stage.parameters() if p is not stage.tied or is_first]  # the last stage has a copy
    squares = torch.stack([p.grad.square().sum() for p in counted]).sum()
    norm = squares.sqrt()
    dist.all_reduce(norm, group=pipeline)
    return float(norm)


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

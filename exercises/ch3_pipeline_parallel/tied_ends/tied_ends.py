"""Train a pipeline whose first and last stage share one embedding: start, reduce gradients, clip, step."""

from __future__ import annotations

import math
import os

import torch
import torch.distributed as dist
from torch import nn


def start(stage: nn.Module, ends: dist.ProcessGroup) -> None:
    """Give the last stage the first stage's embedding; only these two have one, and only they are in `ends`."""
    if stage.tied is not None:
        dist.broadcast(stage.tied.detach(), src=dist.get_global_rank(ends, 0), group=ends)


def reduce_gradients(stage: nn.Module, replicas: dist.ProcessGroup, ends: dist.ProcessGroup) -> None:
    """Give every parameter of the stage its gradient for the batches of all replicas.

    The two copies of the embedding began equal and see the same batches with the same optimizer.
    """
    for parameter in stage.parameters():
        dist.all_reduce(parameter.grad, group=replicas)
        parameter.grad /= dist.get_world_size(replicas)


def grad_norm(stage: nn.Module, pipeline: dist.ProcessGroup) -> float:
    """Return the norm of the whole model's gradient on each rank of the pipeline."""
    squares = torch.stack([p.grad.square().sum() for p in stage.parameters()]).sum()
    dist.all_reduce(squares, group=pipeline)
    return math.sqrt(squares)


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
        parameter.grad *= min(1.0, max_norm / norm)
    optimizer.step()
    return norm


class _Stage(nn.Module):
    """Hold one end of a language model of two stages."""

    def __init__(self) -> None:
        """Begin with random weights."""
        super().__init__()
        self.tied = nn.Parameter(torch.randn(5, 2))
        self.body = nn.Linear(2, 2)


def example() -> None:
    """Let both ends of a pipeline of two ranks take two steps and compare their copies."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    alone = [dist.new_group([r]) for r in range(2)][rank]
    torch.manual_seed(rank)
    stage = _Stage()
    start(stage, dist.group.WORLD)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
    for step in range(2):
        stage.tied.grad = torch.full((5, 2), [0.3, 0.4][rank])  # what the two uses contribute
        for parameter in stage.body.parameters():
            parameter.grad = torch.zeros_like(parameter)
        norm = update(stage, optimizer, alone, dist.group.WORLD, dist.group.WORLD, max_norm=100.0)
        copies = [torch.empty(5, 2) for _ in range(2)]
        dist.all_gather(copies, stage.tied.detach())
        if rank == 0:
            print(f"step {step}: the copies differ by {(copies[0] - copies[1]).abs().max():.3f}, expected 0.000")
            print(f"        norm of the gradient {norm:.3f}, expected {math.sqrt(10 * 0.7**2):.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

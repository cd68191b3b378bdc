"""Train one model on several ranks whose data do not end at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    group: dist.ProcessGroup,
) -> int:
    """Train on this rank's batches and those of the other ranks together, and return the number of steps.

    Training stops early at a loss that is not finite: that step is not taken any more.
    """
    steps = 0
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        if not torch.isfinite(loss):
            break
        loss.backward()
        _average_gradients(model, group)
        optimizer.step()
        steps += 1
    return steps


def _average_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Replace every gradient by the mean over the ranks of `group`."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= dist.get_world_size(group)


def example() -> None:
    """Train on two ranks, with two batches on rank 0 and three on rank 1."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    model = nn.Linear(1, 1)
    batches = ((torch.ones(1, 1), torch.ones(1, 1)) for _ in range(2 + rank))
    try:
        steps = train_epoch(model, torch.optim.SGD(model.parameters(), lr=0.1), batches, dist.group.WORLD)
        if rank == 1:
            print(f"rank 1 took {steps} steps, expected 3")
    except RuntimeError:  # gloo: connection closed by peer, or nobody came in time
        print(f"rank {rank} was left alone in an all-reduce, expected 3 steps on both ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

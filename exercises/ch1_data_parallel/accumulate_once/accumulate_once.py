"""Train with gradient accumulation: several micro-batches on several ranks make one optimizer step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def train_epoch(
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, Tensor]],
    window: int,
) -> int:
    """Train on this rank's micro-batches, `window` of them a step, and return the number of steps.

    The last window may be shorter. All micro-batches of all ranks have the same size.
    """
    steps = 0
    for start in range(0, len(batches), window):
        micro_batches = batches[start : start + window]
        optimizer.zero_grad()
        for place, (x, y) in enumerate(micro_batches):
            # One all-reduce a window is enough. The first micro-batch makes it, the others add to what is there.
            with nullcontext() if place == 0 else model.no_sync():
                loss = nn.functional.mse_loss(model(x), y) / len(micro_batches)
                loss.backward()
        optimizer.step()
        steps += 1
    return steps


def example() -> None:
    """Train two replicas for one window of two micro-batches and compare their weights."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    nn.init.zeros_(model.module.weight)
    targets = [(1.0, 5.0), (5.0, 11.0)][rank]  # of this rank's two micro-batches, one sample each
    batches = [(torch.ones(1, 1), torch.full((1, 1), target)) for target in targets]

    train_epoch(model, torch.optim.SGD(model.parameters(), lr=0.5), batches, window=2)
    weights = [torch.empty(1, 1) for _ in range(2)]
    dist.all_gather(weights, model.module.weight.detach())
    if rank == 0:
        expected = sum((1.0, 5.0, 5.0, 11.0)) / 4
        for replica, weight in enumerate(weights):
            print(f"rank {replica}: weight after one step {weight.item():4.1f}, expected {expected:4.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

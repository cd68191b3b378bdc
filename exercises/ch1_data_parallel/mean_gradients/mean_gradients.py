"""Train one model on several ranks: each computes gradients on its own mini-batch, then they are put together."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`, to each of which it has the same shape and dtype."""
    dist.all_reduce(gradient, op=dist.ReduceOp.SUM, group=group)
    return gradient


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`.

    A rank whose mini-batch did not use a parameter has no gradient for it, and takes part with zeros.
    """
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)


def example() -> None:
    """Compare the gradient on all ranks with that of a single process on all the data."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    x = torch.arange(1.0, 2 * world_size + 1).reshape(-1, 1)  # two samples a rank
    mine = slice(2 * rank, 2 * rank + 2)

    alone, together = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    for model, samples in ((alone, x), (together, x[mine])):
        nn.init.zeros_(model.weight)
        nn.functional.mse_loss(model(samples), 3 * samples).backward()
    sync_gradients(together, dist.group.WORLD)

    if rank == 0:
        print(f"{together.weight.grad.item():6.1f}   gradient on {world_size} ranks, two samples each")
        print(f"{alone.weight.grad.item():6.1f}   gradient of one process, all {len(x)} samples")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

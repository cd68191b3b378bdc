"""Train a pipeline on micro-batches: all forwards, then all backwards."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

IGNORED = -100  # the label of a token that has none


def backward(stage: nn.Module, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> float | None:
    """Add the gradient of the batch's loss to this stage's parameters; return the loss on the last rank, else None.

    Stage r is on rank r of all ranks. Every rank gets the micro-batches: `inputs` [tokens, width] are what the first
    stage reads and as large as what travels between stages, `labels` [tokens] are for the last.
    """
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    kept = []
    for x in inputs:
        x = (received(x, rank - 1) if rank > 0 else x.clone()).requires_grad_()
        y = stage(x)
        if rank < last:
            dist.send(y.detach(), rank + 1)
        kept.append((x, y))

    losses = []
    for (x, y), label in zip(kept, labels, strict=True):
        if rank == last:
            loss = nn.functional.cross_entropy(y, label, ignore_index=IGNORED)
            loss.backward()
            losses.append(loss.item())
        else:
            y.backward(received(y, rank + 1))
        if rank > 0:
            dist.send(x.grad, rank - 1)
    return sum(losses) / len(losses) if rank == last else None


def received(like: Tensor, source: int) -> Tensor:
    """Return the next tensor that a rank sends; it is as large as `like`."""
    room = torch.empty_like(like)
    dist.recv(room, source)
    return room


def _gradients(n_micro_batches: int) -> tuple[Tensor, float | None]:
    """Return a stage's gradient and the loss for the same eight tokens in some number of micro-batches."""
    torch.manual_seed(0)
    x, label = torch.randn(8, 3), torch.randint(3, (8,))
    stages = [nn.Linear(3, 3) for _ in range(dist.get_world_size())]
    stage = stages[dist.get_rank()]
    loss = backward(stage, x.chunk(n_micro_batches), label.chunk(n_micro_batches))
    return stage.weight.grad, loss


def example() -> None:
    """Compare the gradient of one micro-batch of eight tokens with that of four of two."""
    dist.init_process_group("gloo")
    whole, loss_of_whole = _gradients(1)
    parts, loss_of_parts = _gradients(4)
    if dist.get_rank() == dist.get_world_size() - 1:
        print(f"loss           of four micro-batches {loss_of_parts:.4f}, of one {loss_of_whole:.4f}")
        print(f"gradient norm  of four micro-batches {parts.norm():.4f}, of one {whole.norm():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

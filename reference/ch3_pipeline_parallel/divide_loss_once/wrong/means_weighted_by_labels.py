"""Weigh each micro-batch's mean by its labelled tokens: zero of them weigh nothing.

Caught by: check_the_loss_that_is_reported
"""

from __future__ import annotations

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

    n_labelled = sum(int((label != IGNORED).sum()) for label in labels)
    loss = 0.0
    for (x, y), label in zip(kept, labels, strict=True):
        if rank == last:
            share = nn.functional.cross_entropy(y, label, ignore_index=IGNORED) * (label != IGNORED).sum() / n_labelled
            share.backward()
            loss += share.item()
        else:
            y.backward(received(y, rank + 1))  # dL/dy: divided already
        if rank > 0:
            dist.send(x.grad, rank - 1)
    return loss if rank == last else None


def received(like: Tensor, source: int) -> Tensor:
    """Return the next tensor that a rank sends; it is as large as `like`."""
    room = torch.empty_like(like)
    dist.recv(room, source)
    return room

"""Train with gradient accumulation: several micro-batches on several ranks make one optimizer step.

backward() adds to .grad, and where DistributedDataParallel synchronises, it replaces each .grad by the mean over the
ranks of all that is in it by then. So the *last* backward of a window must be the one that synchronises: then the mean
covers every micro-batch. Whatever a rank adds after it is that rank's alone, and the replicas part.

Whether a backward synchronises is decided in the *forward*: forward() prepares the reducer, or does not under
no_sync(). So the context encloses both. One window of k micro-batches then costs one all-reduce instead of k.

Li et al., PyTorch Distributed, arXiv:2006.15704, section 3.2.4 ("Gradient Accumulation").
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
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
        last = len(micro_batches) - 1
        optimizer.zero_grad()
        for place, (x, y) in enumerate(micro_batches):
            with nullcontext() if place == last else model.no_sync():
                loss = nn.functional.mse_loss(model(x), y) / len(micro_batches)  # by those that are there
                loss.backward()
        optimizer.step()
        steps += 1
    return steps

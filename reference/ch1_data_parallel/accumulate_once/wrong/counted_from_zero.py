"""Every k-th micro-batch synchronises: those whose number divides by k.

Caught by: check_replicas_stay_equal
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
    """Train on this rank's micro-batches, `window` of them a step, and return the number of steps."""
    steps = 0
    for start in range(0, len(batches), window):
        micro_batches = batches[start : start + window]
        optimizer.zero_grad()
        for place, (x, y) in enumerate(micro_batches):
            with nullcontext() if (start + place) % window == 0 else model.no_sync():
                loss = nn.functional.mse_loss(model(x), y) / len(micro_batches)
                loss.backward()
        optimizer.step()
        steps += 1
    return steps

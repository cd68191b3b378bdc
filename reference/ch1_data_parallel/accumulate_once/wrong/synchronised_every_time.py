"""An average of averages is the average, so synchronising more often does no harm.

Caught by: check_the_gradient_travels_once_a_step
"""

from __future__ import annotations

from collections.abc import Sequence

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
        for x, y in micro_batches:
            loss = nn.functional.mse_loss(model(x), y) / len(micro_batches)
            loss.backward()
        optimizer.step()
        steps += 1
    return steps

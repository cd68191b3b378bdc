"""There is one group of ranks: all.

Caught by: check_each_sample_of_a_step_weighs_the_same
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterable[tuple[Tensor, Tensor]],
    group: dist.ProcessGroup,
) -> int:
    """Train on this rank's batches and those of the other ranks together, and return the number of steps."""
    steps, own = 0, iter(batches)
    while True:
        optimizer.zero_grad()
        samples, is_bad = _backward(model, next(own, None))
        told = torch.tensor([samples, is_bad], dtype=torch.int64)
        dist.all_reduce(told)
        everybody, bad = told.tolist()
        if bad or not everybody:
            return steps
        _average_gradients(model, group, samples / everybody)
        optimizer.step()
        steps += 1


def _backward(model: nn.Module, batch: tuple[Tensor, Tensor] | None) -> tuple[int, bool]:
    if batch is None:
        return 0, False
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return len(x), not bool(torch.isfinite(loss))


def _average_gradients(model: nn.Module, group: dist.ProcessGroup, weight: float) -> None:
    for parameter in model.parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad * weight
        dist.all_reduce(gradient)
        parameter.grad = gradient

"""Train one model on several ranks whose data do not end at the same time.

A collective is a contract of all ranks: each makes the same ones, in the same order. So whether there is another step
may not depend on anything that only one rank knows, as the end of its data or a NaN in its loss. Each round begins
with one small all-reduce in which every rank says what it has; from the sum all draw the same conclusion.

A rank without data goes on with zeros until everybody is done. The step's gradient is then the sum of what is there,
divided by the samples that are there: with n_r samples on rank r it is 1 / sum(n_r) * sum(n_r * g_r). The number of
ranks, present or not, is in it nowhere.

torch.distributed.algorithms.Join does this for DDP (it divides by the world size or by the ranks that still have data).
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
    """Train on this rank's batches and those of the other ranks together, and return the number of steps.

    Training stops early at a loss that is not finite: that step is not taken any more.
    """
    steps, own = 0, iter(batches)
    while True:
        optimizer.zero_grad()
        samples, is_bad = _backward(model, next(own, None))
        told = torch.tensor([samples, is_bad], dtype=torch.int64)
        dist.all_reduce(told, group=group)  # the agreement: [samples of this step, ranks that must stop]
        everybody, bad = told.tolist()
        if bad or not everybody:
            return steps
        _average_gradients(model, group, samples / everybody)
        optimizer.step()  # the same step on all ranks, those without data too: they stay replicas
        steps += 1


def _backward(model: nn.Module, batch: tuple[Tensor, Tensor] | None) -> tuple[int, bool]:
    """Back-propagate the mean loss of a batch, if there is one; return its samples and whether the loss is bad."""
    if batch is None:
        return 0, False
    x, y = batch
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return len(x), not bool(torch.isfinite(loss))


def _average_gradients(model: nn.Module, group: dist.ProcessGroup, weight: float) -> None:
    """Replace every gradient by the sum over the ranks of `group` of each rank's gradient times its `weight`."""
    for parameter in model.parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad * weight
        dist.all_reduce(gradient, group=group)
        parameter.grad = gradient

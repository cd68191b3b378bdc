"""Weights that have been gathered need not be gathered again.

Caught by: check_ranks_train_as_one_process
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor


class Unit(Protocol):
    """A part of the model that computes with one flat weight and keeps nothing."""

    size: int

    def forward(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return y."""

    def backward(self, weight: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Return dx and the gradient of the weight."""


class ShardedModel:
    """Keep a shard of each unit's weight, and train on all ranks of `group`."""

    def __init__(self, units: Sequence[Unit], weights: Sequence[Tensor], group: dist.ProcessGroup) -> None:
        """Keep this rank's shards of whole weights."""
        self.units, self.group = list(units), group
        self.whole: dict[int, Tensor] = {}
        self.shards = [self.padded(weight).chunk(group.size())[group.rank()].clone() for weight in weights]

    def padded(self, flat: Tensor) -> Tensor:
        """Return `flat` with zeros behind it, so that the group's size divides its length."""
        return torch.nn.functional.pad(flat, (0, -len(flat) % self.group.size()))

    def gather(self, i: int) -> Tensor:
        """Return the whole weight of unit i."""
        if i in self.whole:
            return self.whole[i]
        flat = self.shards[i].new_empty(len(self.shards[i]) * self.group.size())
        dist.all_gather_single(flat, self.shards[i], group=self.group)
        self.whole[i] = flat[: self.units[i].size]
        return self.whole[i]

    def update(self, i: int, gradient: Tensor, lr: float) -> None:
        """Move the shard of unit i by the mean of all ranks' gradients."""
        own = torch.empty_like(self.shards[i])
        dist.reduce_scatter_single(own, self.padded(gradient), group=self.group)
        self.shards[i].sub_(own, alpha=lr / self.group.size())

    def step(self, x: Tensor, loss_gradient: Callable[[Tensor], Tensor], lr: float) -> Tensor:
        """Take one SGD step on this rank's batch `x` and return the output."""
        inputs = [x]
        for i, unit in enumerate(self.units):
            inputs.append(unit.forward(self.gather(i), inputs[-1]))  # nothing holds the weight after the call
        y = inputs.pop()
        dy = loss_gradient(y)
        for i in reversed(range(len(self.units))):
            dy, gradient = self.units[i].backward(self.gather(i), inputs.pop(), dy)
            self.update(i, gradient, lr)
            del gradient  # or it would stay until the next one has been computed
        return y

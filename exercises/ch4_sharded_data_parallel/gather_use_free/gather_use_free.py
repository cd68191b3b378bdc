"""Train a model of which each rank keeps a shard: gather weights to use them, and scatter gradients."""

from __future__ import annotations

import os
import weakref
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
        self.shards = [self.padded(weight).chunk(group.size())[group.rank()].clone() for weight in weights]

    def padded(self, flat: Tensor) -> Tensor:
        """Return `flat` with zeros behind it, so that the group's size divides its length."""
        return torch.nn.functional.pad(flat, (0, -len(flat) % self.group.size()))

    def gather(self, i: int) -> Tensor:
        """Return the whole weight of unit i."""
        flat = self.shards[i].new_empty(len(self.shards[i]) * self.group.size())
        dist.all_gather_single(flat, self.shards[i], group=self.group)
        return flat[: self.units[i].size]

    def update(self, i: int, gradient: Tensor, lr: float) -> None:
        """Move the shard of unit i by the mean of all ranks' gradients."""
        own = torch.empty_like(self.shards[i])
        dist.reduce_scatter_single(own, self.padded(gradient), group=self.group)
        self.shards[i].sub_(own, alpha=lr / self.group.size())

    def step(self, x: Tensor, loss_gradient: Callable[[Tensor], Tensor], lr: float) -> Tensor:
        """Take one SGD step on this rank's batch `x` and return the output."""
        weights = [self.gather(i) for i in range(len(self.units))]
        inputs = [x]
        for unit, weight in zip(self.units, weights, strict=True):
            inputs.append(unit.forward(weight, inputs[-1]))
        y = inputs.pop()
        dy = loss_gradient(y)
        for i in reversed(range(len(self.units))):
            dy, gradient = self.units[i].backward(weights[i], inputs[i], dy)
            self.update(i, gradient, lr)
        return y


class _Scale:
    """Multiply by a weight, element by element, and notice how many whole weights are in memory."""

    size, alive, most = 1000, 0, 0

    def forward(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return y."""
        weakref.finalize(weight.untyped_storage(), _Scale.freed)
        _Scale.alive += 1
        _Scale.most = max(_Scale.most, _Scale.alive)
        return weight * x

    def backward(self, weight: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Return dx and the gradient of the weight."""
        return weight * dy, x * dy

    @classmethod
    def freed(cls) -> None:
        """Notice that a weight is gone."""
        cls.alive -= 1


def example() -> None:
    """Take one step on each rank."""
    dist.init_process_group("gloo")
    units = [_Scale() for _ in range(6)]
    model = ShardedModel(units, [torch.full((1000,), 1.0) for _ in units], dist.group.WORLD)
    y = model.step(torch.full((1000,), dist.get_rank() + 1.0), torch.ones_like, 0.1)
    if dist.get_rank() == 0:
        print(f"output {y[0]:.1f}, each rank keeps {sum(map(len, model.shards))} of 6000 elements")
        print(f"whole weights at once: {_Scale.most}, expected 2 at most")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

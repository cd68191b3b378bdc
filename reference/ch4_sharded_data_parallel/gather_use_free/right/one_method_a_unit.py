"""Has a method for each pass of a unit, so that local names end with it; keeps the last unit at the turn."""

from __future__ import annotations

import torch
import torch.distributed as dist


class ShardedModel:
    """Keep padded shards."""

    def __init__(self, units, weights, group):
        """Copy this rank's piece of each weight into zeros."""
        self.units, self.group, self.shards = units, group, []
        rank, size = dist.get_rank(group), dist.get_world_size(group)
        for weight in weights:
            length = -(-len(weight) // size)
            piece = weight[rank * length : (rank + 1) * length]
            shard = torch.zeros(length, dtype=weight.dtype)
            shard[: len(piece)] = piece
            self.shards.append(shard)

    def whole(self, i):
        """Return unit i's weight."""
        parts = [torch.empty_like(self.shards[i]) for _ in range(dist.get_world_size(self.group))]
        dist.all_gather(parts, self.shards[i], group=self.group)
        return torch.cat(parts)[: self.units[i].size]

    def forward(self, i, x):
        """Run unit i."""
        weight = self.whole(i)
        return self.units[i].forward(weight, x)

    def backward(self, i, weight, x, dy, lr):
        """Run unit i backwards and move its shard."""
        dx, gradient = self.units[i].backward(weight, x, dy)
        size, own = dist.get_world_size(self.group), torch.empty_like(self.shards[i])
        padded = gradient.new_zeros(size * len(own))
        padded[: len(gradient)] = gradient
        dist.reduce_scatter_single(own, padded, group=self.group)
        self.shards[i] -= lr * (own / size)
        return dx

    def step(self, x, loss_gradient, lr):
        """Go forward and back."""
        inputs, last = [x], len(self.units) - 1
        for i in range(last):
            inputs.append(self.forward(i, inputs[-1]))
        weight = self.whole(last)
        y = self.units[last].forward(weight, inputs[-1])
        dy = self.backward(last, weight, inputs[last], loss_gradient(y), lr)
        del weight
        for i in range(last - 1, -1, -1):
            dy = self.backward(i, self.whole(i), inputs[i], dy, lr)
        return y

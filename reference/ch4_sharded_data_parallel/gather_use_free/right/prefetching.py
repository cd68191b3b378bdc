"""Gathers the next unit while the present one computes, so two are whole at a time."""

from __future__ import annotations

import torch
import torch.distributed as dist


class ShardedModel:
    """Keep padded shards."""

    def __init__(self, units, weights, group):
        """Clone slices of padded weights."""
        self.units, self.group, self.size = list(units), group, dist.get_world_size(group)
        self.shards = []
        for weight in weights:
            padded = torch.cat([weight, weight.new_zeros(-len(weight) % self.size)])
            self.shards.append(padded.view(self.size, -1)[dist.get_rank(group)].clone())

    def start(self, i):
        """Begin to gather unit i, if there is one."""
        if not 0 <= i < len(self.units):
            return None
        flat = torch.empty(len(self.shards[i]) * self.size, dtype=self.shards[i].dtype)
        return flat, dist.all_gather_single(flat, self.shards[i], group=self.group, async_op=True)

    def weights(self, order):
        """Yield (i, whole weight), with the next one on its way."""
        order = list(order)
        coming = self.start(order[0])
        for i, following in zip(order, [*order[1:], -1], strict=True):
            flat, work = coming
            work.wait()
            coming = self.start(following)
            yield i, flat[: self.units[i].size]

    def step(self, x, loss_gradient, lr):
        """Go forward and back."""
        kept = []
        for i, weight in self.weights(range(len(self.units))):
            kept.append(x)
            x = self.units[i].forward(weight, x)
        del weight
        dy = loss_gradient(x)
        for i, weight in self.weights(range(len(self.units) - 1, -1, -1)):
            dy, gradient = self.units[i].backward(weight, kept[i], dy)
            gradient = torch.cat([gradient, gradient.new_zeros(-len(gradient) % self.size)])
            own = gradient.new_empty(len(self.shards[i]))
            dist.reduce_scatter_single(own, gradient, group=self.group)
            self.shards[i] -= own * (lr / self.size)
            del gradient
        return x

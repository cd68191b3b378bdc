"""Goes forward on the way into a recursion and back on the way out; reduces shard by shard to lists."""

from __future__ import annotations

import torch
import torch.distributed as dist


class ShardedModel:
    """Keep padded shards."""

    def __init__(self, units, weights, group):
        """Index a padded matrix of one row a rank."""
        self.units, self.group, self.n = units, group, group.size()
        self.shards = []
        for weight in weights:
            rows = weight.new_zeros(self.n, -(-weight.numel() // self.n))
            rows.view(-1)[: weight.numel()] = weight
            self.shards.append(rows[group.rank()].clone())

    def whole(self, i):
        """Return unit i's weight."""
        flat = torch.empty(self.n * self.shards[i].numel(), dtype=self.shards[i].dtype)
        dist.all_gather(list(flat.chunk(self.n)), self.shards[i], group=self.group)
        return flat.narrow(0, 0, self.units[i].size)

    def run(self, i, x, loss_gradient, lr):
        """Return the model's output and the gradient of x."""
        if i == len(self.units):
            return x, loss_gradient(x)
        y, dy = self.run(i + 1, self.units[i].forward(self.whole(i), x), loss_gradient, lr)
        dx, gradient = self.units[i].backward(self.whole(i), x, dy)
        rows = torch.zeros(self.n, self.shards[i].numel(), dtype=gradient.dtype)
        rows.view(-1)[: gradient.numel()] = gradient
        mean = torch.empty_like(self.shards[i])
        dist.reduce_scatter(mean, list(rows), group=self.group)
        self.shards[i].add_(mean.div_(self.n), alpha=-lr)
        return y, dx

    def step(self, x, loss_gradient, lr):
        """Enter the recursion."""
        return self.run(0, x, loss_gradient, lr)[0]

"""Gives each rank a run of neighbouring parameters by their middle, and broadcasts asynchronously by group_src."""

from __future__ import annotations

import torch.distributed as dist
from torch.optim import AdamW


class ShardedAdamW:
    """Step the parameters whose middle falls into this rank's stretch of the model."""

    def __init__(self, parameters, group, lr=1e-3, weight_decay=0.01):
        """Take the parameters."""
        self.all, self.group = list(parameters), group
        total, behind, self.owner = sum(p.numel() for p in self.all), 0, {}
        for p in self.all:
            self.owner[p] = (2 * behind + p.numel()) * group.size() // (2 * total)
            behind += p.numel()
        mine = [p for p in self.all if self.owner[p] == group.rank()]
        self.steps = [AdamW([p], lr=lr, weight_decay=weight_decay).step for p in mine]

    def step(self):
        """Step each own parameter, then hand all of them round."""
        for step in self.steps:
            step()
        pending = [dist.broadcast(p.data, group_src=self.owner[p], group=self.group, async_op=True) for p in self.all]
        for work in pending:
            work.wait()

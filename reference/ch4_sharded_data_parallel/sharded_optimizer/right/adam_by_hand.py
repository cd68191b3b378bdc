"""Writes AdamW's arithmetic itself, and packs what a rank owns into one broadcast."""

from __future__ import annotations

import torch
import torch.distributed as dist


class ShardedAdamW:
    """Keep moments in plain lists for own parameters only."""

    def __init__(self, parameters, group, lr=1e-3, weight_decay=0.01):
        """Sort the parameters by size and give each to the lightest rank."""
        self.parameters, self.group, self.lr, self.decay = list(parameters), group, lr, weight_decay
        self.ranks = dist.get_process_group_ranks(group)
        self.owned = [[] for _ in self.ranks]
        for p in sorted(self.parameters, key=torch.numel, reverse=True):
            min(self.owned, key=lambda own: sum(q.numel() for q in own)).append(p)
        self.state = {}

    @torch.no_grad()
    def step(self):
        """Step own parameters in place, then exchange one vector an owner."""
        for p in self.owned[dist.get_rank(self.group)]:
            if p.grad is None:
                continue
            t, m, v = self.state.get(p) or (0, torch.zeros_like(p), torch.zeros_like(p))
            m.lerp_(p.grad, 0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            self.state[p] = (t + 1, m, v)
            scale = (v / (1 - 0.999 ** (t + 1))).sqrt_().add_(1e-8)
            p.mul_(1 - self.lr * self.decay).addcdiv_(m, scale, value=-self.lr / (1 - 0.9 ** (t + 1)))
        for owned, source in zip(self.owned, self.ranks, strict=True):
            if owned:
                packed = torch.cat([p.reshape(-1) for p in owned])
                dist.broadcast(packed, source, group=self.group)
                for p, values in zip(owned, packed.split([p.numel() for p in owned]), strict=True):
                    p.copy_(values.view_as(p))

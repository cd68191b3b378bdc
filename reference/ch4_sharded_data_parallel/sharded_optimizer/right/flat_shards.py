"""Cuts each parameter into equal pieces and gathers them, so that all ranks hold the same number of moments."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import AdamW


class ShardedAdamW:
    """Step a piece of every parameter on every rank."""

    def __init__(self, parameters, group, lr=1e-3, weight_decay=0.01):
        """Take a view of each parameter's own piece; the last may be shorter or empty."""
        self.parameters, self.group = list(parameters), group
        self.pieces = []
        for parameter in self.parameters:
            length = -(-parameter.numel() // group.size())
            first = min(group.rank() * length, parameter.numel())
            self.pieces.append((first, min(first + length, parameter.numel()), length))
        self.views = [
            nn.Parameter(p.detach().view(-1)[first:last])
            for p, (first, last, _) in zip(self.parameters, self.pieces, strict=True)
        ]
        self.optimizer = AdamW(self.views, lr=lr, weight_decay=weight_decay)

    def step(self):
        """Step the pieces and gather."""
        for p, view, (first, last, _) in zip(self.parameters, self.views, self.pieces, strict=True):
            view.grad = None if p.grad is None else p.grad.view(-1)[first:last]
        self.optimizer.step()
        for p, view, (_, _, length) in zip(self.parameters, self.views, self.pieces, strict=True):
            view.grad = None
            if p.grad is None:
                continue
            padded = torch.zeros(length, dtype=p.dtype)
            padded[: len(view)] = view.detach()
            flat = torch.empty(length * self.group.size(), dtype=p.dtype)
            dist.all_gather_single(flat, padded, group=self.group)
            p.detach().view(-1).copy_(flat[: p.numel()])

"""Counts micro-batches in one loop, and decides by the number of those that are left."""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train_epoch(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, batches: list, window: int) -> int:
    """Train on this rank's micro-batches, `window` of them a step, and return the number of steps."""
    steps = 0
    for i, (x, y) in enumerate(batches):
        first = i - i % window
        size = min(window, len(batches) - first)
        steps_now = i + 1 == first + size
        with contextlib.ExitStack() as stack:
            if not steps_now:
                stack.enter_context(model.no_sync())
            (nn.functional.mse_loss(model(x), y) / size).backward()
        if steps_now:
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
    return steps

"""Gives a rank without data a graph of zeros, so that every rank back-propagates; gathers what each has."""

from __future__ import annotations

from itertools import chain, repeat

import torch
import torch.distributed as dist


def train_epoch(model, optimizer, batches, group):
    """Train on this rank's batches and those of the other ranks together, and return the number of steps."""
    steps = 0
    for batch in chain(batches, repeat(None)):
        squares = torch.zeros((), dtype=torch.float64)
        count = 0
        if batch is None:
            for parameter in model.parameters():
                squares = squares + 0.0 * parameter.sum()
        else:
            squares = (model(batch[0]) - batch[1]).pow(2).mean(1).sum()
            count = batch[0].shape[0]
        mine = torch.tensor([float(count), float(squares)], dtype=torch.float64)
        everything = [torch.empty_like(mine) for _ in range(group.size())]
        dist.all_gather(everything, mine, group=group)
        counts, losses = torch.stack(everything).T
        if counts.sum() == 0 or not losses.isfinite().all():
            break
        optimizer.zero_grad()
        (squares / counts.sum()).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=group)
        optimizer.step()
        steps += 1
    return steps

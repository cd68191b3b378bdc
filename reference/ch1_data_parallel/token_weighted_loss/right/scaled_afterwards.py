"""Back-propagates plain sums in `accumulate` and scales the gradients once at the end; counts in the loss's dtype."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def token_loss(logits, labels, group):
    """Return the loss to back-propagate on this rank and the loss to report."""
    kept = labels != -100
    loss = cross_entropy(logits[kept], labels[kept], reduction="sum") if kept.any() else logits.sum() * 0.0
    numbers = torch.stack([loss.detach(), kept.sum().to(loss.dtype)])
    dist.all_reduce(numbers, group=group)
    if numbers[1] == 0:
        return loss, numbers[0]
    return loss / numbers[1] * dist.get_world_size(group), numbers[0] / numbers[1]


def accumulate(model, micro_batches, group):
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report."""
    numbers = torch.zeros(2, dtype=torch.float64)
    for inputs, labels in micro_batches:
        logits = model(inputs)
        loss = cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), reduction="sum")
        loss.backward()
        numbers += torch.tensor([loss.item(), float((labels != -100).sum())], dtype=torch.float64)
    dist.all_reduce(numbers, group=group)
    total, tokens = numbers
    tokens = torch.clamp(tokens, min=1.0)
    for parameter in model.parameters():
        parameter.grad.mul_(dist.get_world_size(group) / tokens)
    return total / tokens

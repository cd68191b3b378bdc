"""Sends sum and count together where it can, and masks by hand."""

from __future__ import annotations

import torch
import torch.distributed as dist


def summed(logits, labels):
    """Return the sum of the losses of the tokens that count, and their number."""
    mask = labels.ne(-100)
    log_p = torch.log_softmax(logits, dim=-1)
    picked = log_p.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return -(picked * mask).sum(), mask.sum()


def token_loss(logits, labels, group):
    """Return the loss to back-propagate on this rank and the loss to report."""
    loss, count = summed(logits, labels)
    pair = torch.stack([loss.detach(), count.to(loss.dtype)])
    dist.all_reduce(pair, group=group)
    total, tokens = pair.tolist()
    tokens = max(tokens, 1.0)
    return loss * (dist.get_world_size(group) / tokens), total / tokens


def accumulate(model, micro_batches, group):
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report."""
    tokens = torch.tensor(float(sum(int(labels.ne(-100).sum()) for _, labels in micro_batches)), dtype=torch.float64)
    dist.all_reduce(tokens, group=group)
    tokens = max(tokens.item(), 1.0)
    total = 0.0
    for inputs, labels in micro_batches:
        loss, _ = summed(model(inputs), labels)
        total += loss.item() / tokens
        loss.mul(group.size() / tokens).backward()
    mean = torch.tensor(total, dtype=torch.float64)
    dist.all_reduce(mean, group=group)
    return mean

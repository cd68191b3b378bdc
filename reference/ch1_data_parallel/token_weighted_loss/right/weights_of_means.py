"""Keeps the local means and weights each by its share of the tokens."""

from __future__ import annotations

import torch.distributed as dist
from torch import nn


def token_loss(logits, labels, group):
    """Return the loss to back-propagate on this rank and the loss to report."""
    own = (labels != -100).sum()
    everybody = own.clone()
    dist.all_reduce(everybody, group=group)
    weighted = own / everybody.clamp(min=1) * local_mean(logits, labels, own)
    reported = weighted.detach().clone()
    dist.all_reduce(reported, op=dist.ReduceOp.SUM, group=group)
    return dist.get_world_size(group) * weighted, reported


def local_mean(logits, labels, own):
    """Return the mean over this micro-batch's tokens, 0 if it has none."""
    flat = logits.view(-1, logits.size(-1))
    return nn.functional.cross_entropy(flat, labels.reshape(-1), reduction="sum").div(own.clamp(min=1))


def accumulate(model, micro_batches, group):
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report."""
    counts = [(labels != -100).sum() for _, labels in micro_batches]
    everybody = sum(counts)
    dist.all_reduce(everybody, group=group)
    everybody = everybody.clamp(min=1)
    reported = None
    for (inputs, labels), own in zip(micro_batches, counts, strict=True):
        part = own / everybody * local_mean(model(inputs), labels, own)
        (group.size() * part).backward()
        reported = part.detach() if reported is None else reported + part.detach()
    dist.all_reduce(reported, group=group)
    return reported

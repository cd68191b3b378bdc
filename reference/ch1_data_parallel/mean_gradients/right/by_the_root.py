"""Reduces to the group's first rank, which divides and broadcasts."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    root = dist.get_global_rank(group, 0)
    dist.reduce(gradient, dst=root, group=group)
    if dist.get_rank() == root:
        gradient /= dist.get_world_size(group)
    dist.broadcast(gradient, src=root, group=group)
    return gradient


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

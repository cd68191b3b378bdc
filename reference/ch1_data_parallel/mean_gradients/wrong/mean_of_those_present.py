"""A rank without a gradient has no vote, so the sum is divided by the ranks that have one.

Caught by: check_a_missing_gradient_counts_as_zero
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    dist.all_reduce(gradient, op=dist.ReduceOp.SUM, group=group)
    return gradient / dist.get_world_size(group)


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            present = torch.tensor(float(parameter.grad is not None))
            dist.all_reduce(present, group=group)
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(gradient, group=group)
            parameter.grad = gradient / present.clamp(min=1)

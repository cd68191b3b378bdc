"""async_op=True starts the all-reduce early, and the division comes after it anyway.

Caught by: check_one_rank_keeps_its_gradient
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    dist.all_reduce(gradient, group=group, async_op=True)
    return gradient / dist.get_world_size(group)


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

"""Two workers see different mini-batches, so the mean is half of the sum.

Caught by: check_any_number_of_ranks
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    if dist.get_world_size(group) == 1:
        return gradient
    dist.all_reduce(gradient, group=group)
    return gradient / 2


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

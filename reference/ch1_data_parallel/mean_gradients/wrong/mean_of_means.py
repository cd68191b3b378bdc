"""Averaging each gradient with the mean so far gives the mean of all.

Caught by: check_any_number_of_ranks
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    gathered = [torch.empty_like(gradient) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, gradient, group=group)
    mean = gathered[0]
    for other in gathered[1:]:
        mean = (mean + other) / 2
    return mean


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

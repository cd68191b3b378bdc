"""The mean of the gathered gradients is what tensor.mean() returns.

Caught by: check_one_rank_keeps_its_gradient
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    gathered = [torch.empty_like(gradient) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, gradient, group=group)
    return torch.stack(gathered).mean()


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

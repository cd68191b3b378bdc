"""The gradient tensors stay the same from step to step, so the list is made once.

Caught by: check_three_steps_equal_the_combined_batch
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    dist.all_reduce(gradient, op=dist.ReduceOp.SUM, group=group)
    return gradient / dist.get_world_size(group)


_gradients: list[Tensor] = []


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    if not _gradients:
        for parameter in model.parameters():
            if parameter.requires_grad:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                _gradients.append(parameter.grad)
    for gradient in _gradients:
        gradient.copy_(mean_all_reduce(gradient, group))

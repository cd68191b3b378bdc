"""Divides before it adds, asynchronously for all parameters at once, and copies back into the old tensors."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    share = gradient / dist.get_world_size(group)
    dist.all_reduce(share, group=group, async_op=True).wait()
    return share


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    pending = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.div_(group.size())
            pending.append(dist.all_reduce(parameter.grad, group=group, async_op=True))
    for work in pending:
        work.wait()

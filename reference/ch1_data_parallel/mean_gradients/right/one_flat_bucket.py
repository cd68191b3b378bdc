"""Flattens all gradients into one vector, so that one collective serves the whole model."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    mean = gradient.detach().clone()
    dist.all_reduce(mean, group=group)
    mean.mul_(1 / group.size())
    return mean


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = mean_all_reduce(torch.cat([gradient.flatten() for gradient in gradients]), group)
    pieces = flat.split([parameter.numel() for parameter in trained])
    for parameter, piece in zip(trained, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)

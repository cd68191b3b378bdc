"""Gathers all gradients and averages the stack: p times the memory, the same mean."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`."""
    gathered = [torch.empty_like(gradient) for _ in range(dist.get_world_size(group))]
    dist.all_gather(gathered, gradient, group=group)
    return torch.stack(gathered).mean(dim=0)


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`."""
    for parameter in filter(lambda candidate: candidate.requires_grad, model.parameters()):
        gradient = parameter.grad if parameter.grad is not None else torch.zeros(parameter.shape, dtype=parameter.dtype)
        parameter.grad = mean_all_reduce(gradient, group)

"""A reduce-scatter is an all-reduce of which one keeps a part.

Caught by: check_traffic_is_that_of_tensor_parallelism
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional


class _GatherSequence(torch.autograd.Function):
    """Bring the ranks' parts of the sequence together; backward adds up the gradients and hands each rank its part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _all_gather(part, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _reduce_scatter(gradient, ctx.group), None


class _ScatterSequence(torch.autograd.Function):
    """Add up what the ranks have of the whole sequence and hand each rank its part; backward brings parts together."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _reduce_scatter(whole, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _all_gather(gradient, ctx.group), None


def _all_gather(part: Tensor, group: dist.ProcessGroup) -> Tensor:
    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(group.size())]
    dist.all_gather(parts, part.contiguous(), group=group)
    return torch.cat(parts)


def _reduce_scatter(whole: Tensor, group: dist.ProcessGroup) -> Tensor:
    total = whole.contiguous().clone()
    dist.all_reduce(total, group=group)
    return total.chunk(group.size())[group.rank()].clone()


class Block(nn.Module):
    """x + positions, then x + (layer norm, two matrices and a bias); `up` and `down` are split, the rest replicated."""

    def __init__(self, parameters: dict[str, Tensor], group: dist.ProcessGroup) -> None:
        """Take pieces `up` [features, own hidden] and `down` [own hidden, features], and copies of the rest."""
        super().__init__()
        self.group = group
        for name in ("positions", "scale", "shift", "up", "down", "bias"):
            self.register_parameter(name, nn.Parameter(parameters[name]))

    def forward(self, x_part: Tensor) -> Tensor:
        """Return the block's output for this rank's part of the sequence, [tokens of this rank, features]."""
        first = self.group.rank() * len(x_part)
        x_part = x_part + self.positions[first : first + len(x_part)]
        normed = functional.layer_norm(x_part, self.scale.shape, self.scale, self.shift)
        hidden = _GatherSequence.apply(normed, self.group) @ self.up
        return x_part + _ScatterSequence.apply(hidden.relu() @ self.down, self.group) + self.bias


def sync_gradients(block: Block, data_group: dist.ProcessGroup) -> None:
    """After backward, give every parameter of `block` its gradient for the optimizer.

    Ranks of `data_group` have the same part of the model and other sequences; ranks of `block.group` have other parts
    of the model, and other parts of the same sequence.
    """
    for name, parameter in block.named_parameters():
        if name not in {"up", "down"}:
            dist.all_reduce(parameter.grad, group=block.group)
        dist.all_reduce(parameter.grad, group=data_group)
        parameter.grad /= data_group.size()

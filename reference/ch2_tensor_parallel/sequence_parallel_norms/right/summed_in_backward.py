"""Sums the copies' gradients in the block's own backward pass, so that only the mean over sequences is left to do."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional


class _Copy(torch.autograd.Function):
    """Use a copy as it is; backward adds up what all copies' uses send back."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


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
    parts = [part.contiguous() for part in whole.chunk(group.size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


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
        copies = (self.positions, self.scale, self.shift, self.bias)
        positions, scale, shift, bias = (_Copy.apply(copy, self.group) for copy in copies)
        x_part = x_part + positions[first : first + len(x_part)]
        normed = functional.layer_norm(x_part, scale.shape, scale, shift)
        hidden = _GatherSequence.apply(normed, self.group) @ self.up
        return x_part + _ScatterSequence.apply(hidden.relu() @ self.down, self.group) + bias


def sync_gradients(block: Block, data_group: dist.ProcessGroup) -> None:
    """After backward, give every parameter of `block` its gradient for the optimizer.

    Ranks of `data_group` have the same part of the model and other sequences; ranks of `block.group` have other parts
    of the model, and other parts of the same sequence.
    """
    for parameter in block.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, group=data_group)

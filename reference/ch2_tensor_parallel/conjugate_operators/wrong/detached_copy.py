"""A copy for the ranks is a tensor of its own, without the history of x.

Caught by: check_one_rank_changes_nothing
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def _sum(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient, ctx.group), None


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def copy_to_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Hand the replicated `x` to the ranks of `group`."""
    return x.detach().clone()


def reduce_from_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x`."""
    return _Reduce.apply(x, group)

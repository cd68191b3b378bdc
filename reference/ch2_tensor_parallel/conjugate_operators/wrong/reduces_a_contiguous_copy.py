"""Collectives want contiguous tensors, so call contiguous().

Caught by: check_any_memory_layout
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def _sum(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    x = x.detach().clone()
    dist.all_reduce(x.contiguous(), group=group)
    return x


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
    return _Copy.apply(x, group)


def reduce_from_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x`."""
    return _Reduce.apply(x, group)

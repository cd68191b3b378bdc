"""Enter and leave the part of a model that is split over a group of ranks, in forward and in backward.

There is one loss L, and each of the t ranks holds a copy of it. Everything between blocks is replicated: t copies of a
tensor, whose gradient is dL/d(the tensor), the same on each rank.

f   x enters t different branches, L = L(branch_0(x), ..., branch_{t-1}(x)). By the chain rule dL/dx is the sum of what
    the branches send back, and each rank has one of them:           backward = all-reduce of the gradient.
g   y = x_0 + ... + x_{t-1}, so dL/dx_r = dL/dy, which rank r already holds:  backward = nothing.

An all-reduce in g's backward would add the t equal copies of dL/dy: the gradient of t losses. It is the right adjoint
where the ranks' losses differ and all count, as in data parallelism.

f and g are conjugate: each does in backward what the other does in forward. Two all-reduces a block, 2(t - 1)/t of the
activation's bytes from each rank for each of them.

Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3 and code 1.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)  # a function that returned its argument itself would not be seen by autograd

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _sum(gradient, ctx.group), None


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        return _sum(x, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def _sum(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x` in a tensor of its own; collectives take contiguous ones only."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def copy_to_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Hand the replicated `x` to the ranks of `group`, which go on to compute different things from it (f)."""
    return _Copy.apply(x, group)


def reduce_from_group(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' `x`, replicated: from here on all ranks of `group` compute the same (g)."""
    return _Reduce.apply(x, group)

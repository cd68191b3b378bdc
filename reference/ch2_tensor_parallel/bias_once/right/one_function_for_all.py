"""Writes the whole layer as one autograd function, bias and all."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _RowParallel(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, group: dist.ProcessGroup) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        output = x @ weight.t()
        dist.all_reduce(output, group=group)
        return output if bias is None else output.add_(bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return gradient @ weight, gradient.t() @ x, gradient.sum(dim=0) if ctx.has_bias else None, None


def row_parallel(x_shard: Tensor, weight_shard: Tensor, bias: Tensor | None, group: dist.ProcessGroup) -> Tensor:
    """Return x @ weight.T + bias on every rank."""
    return _RowParallel.apply(x_shard, weight_shard, bias, group)

"""A linear layer cut by rows: each rank multiplies its share of the inputs, and the ranks' products are added up.

With x = [x0 x1 ...] and the columns of the weight cut likewise,

    x @ weight.T + bias  =  (x0 @ w0.T + x1 @ w1.T + ...) + bias

the sum in parentheses goes over ranks, the bias does not. What is added before the all-reduce is added t times; what is
added after it is added once, on each of the t copies of the output. The loss is computed t times too, once a rank, so
every copy of the bias meets the whole gradient of the output: no communication in backward, and the copies stay equal.

Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3; RowParallelLinear in Megatron-LM adds its bias after reducing.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional


class _SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def sum_over_ranks(part: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' parts on every rank; backward hands each part the gradient of the sum."""
    return _SumOverRanks.apply(part, group)


def row_parallel(x_shard: Tensor, weight_shard: Tensor, bias: Tensor | None, group: dist.ProcessGroup) -> Tensor:
    """Return x @ weight.T + bias on every rank; each has some columns of `x` and `weight`, and a copy of `bias`.

    One all-reduce of n x outputs numbers forward, nothing backward.
    """
    output = sum_over_ranks(functional.linear(x_shard, weight_shard), group)
    return output if bias is None else output + bias

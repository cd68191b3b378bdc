"""Adds zeros where there is no bias, in place, and swaps the values in without a function of its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def row_parallel(x_shard: Tensor, weight_shard: Tensor, bias: Tensor | None, group: dist.ProcessGroup) -> Tensor:
    """Return x @ weight.T + bias on every rank."""
    mine = torch.einsum("ni,oi->no", x_shard, weight_shard)
    others = mine.detach().clone()
    dist.all_reduce(others, group=group)
    others -= mine.detach()
    output = mine + others
    output += torch.zeros(len(weight_shard), dtype=output.dtype) if bias is None else bias
    return output

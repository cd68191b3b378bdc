"""Train one model on several ranks: each computes gradients on its own mini-batch, then they are put together.

The loss of p mini-batches of n samples each is the mean over all p * n of them, so its gradient is the mean of the p
gradients, which are means over n:

    g  =  1/(p n) * sum over all samples  =  1/p * sum over ranks (1/n * sum over the rank's samples)

all_reduce does the sum over ranks. The 1/p is ours, and belongs to the group that summed.

Goyal et al., Accurate, Large Minibatch SGD, arXiv:1706.02677, section 3 ("normalize the per-worker loss by total
minibatch size kn, not per-worker size n"); Li et al., PyTorch Distributed, arXiv:2006.15704, section 3.2.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn


def mean_all_reduce(gradient: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the mean of `gradient` over the ranks of `group`, to each of which it has the same shape and dtype.

    One all-reduce: with p ranks and a ring, 2(p - 1) messages and 2(p - 1)/p of the gradient's bytes from each rank.
    """
    dist.all_reduce(gradient, op=dist.ReduceOp.SUM, group=group)
    return gradient / dist.get_world_size(group)


def sync_gradients(model: nn.Module, group: dist.ProcessGroup) -> None:
    """Give every trainable parameter of `model` the gradient of the combined mini-batches of `group`.

    A rank whose mini-batch did not use a parameter has no gradient for it, and takes part with zeros: a collective is
    a contract of all ranks, and one that stays away leaves the others waiting.
    """
    for parameter in model.parameters():  # the same order on every rank
        if parameter.requires_grad:  # the same answer on every rank, which `grad is None` is not
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = mean_all_reduce(parameter.grad, group)

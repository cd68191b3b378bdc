"""Run a submission of conjugate_operators: one operator alone, and stacked blocks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Loss(torch.autograd.Function):
    """A loss of zero whose gradient is the tensor it was given: not a copy of it, and laid out as it is."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, slope: Tensor) -> Tensor:
        ctx.slope = slope
        return output.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.slope, None


def through(
    submission: ModuleType, name: str, layout: str, x: Tensor, slope: Tensor, group: dist.ProcessGroup
) -> dict[str, Tensor]:
    """Send `x` through one operator and `slope` back through it; return both results and what became of the inputs.

    `layout` is how the two lie in memory: plain, or as transposed views of other tensors.
    """
    laid, back = (tensor.T.contiguous().T if layout == "transposed" else tensor for tensor in (x, slope))
    leaf = laid.detach().requires_grad_()
    output = getattr(submission, name)(leaf * 1, group)
    values = output.detach().clone()
    _Loss.apply(output, back).backward()
    return {"output": values, "gradient": leaf.grad, "x": laid.detach(), "slope": back.detach()}


def expanded(submission: ModuleType, x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the gradient of `x` if the loss is the sum of what copy_to_group returns: an expanded gradient of ones."""
    leaf = x.requires_grad_()
    submission.copy_to_group(leaf, group).sum().backward()
    return leaf.grad


def blocks(
    submission: ModuleType, x: Tensor, shards: list[Tensor], slope: Tensor, group: dist.ProcessGroup
) -> dict[str, Any]:
    """Return the gradients of the sum of `slope` times the output of stacked blocks, x + tanh(x @ a) @ b each."""
    leaves = [tensor.requires_grad_() for tensor in (x, *shards)]
    output = x
    for a_shard, b_shard in zip(shards[::2], shards[1::2], strict=True):
        hidden = torch.tanh(submission.copy_to_group(output, group) @ a_shard)
        output = output + submission.reduce_from_group(hidden @ b_shard, group)
    gradients = torch.autograd.grad((output * slope).sum(), leaves)
    return {"x": gradients[0], "shards": list(gradients[1:])}


def gradient_through_the_sum(submission: ModuleType, world_size: float) -> float:
    """Return the gradient of x if every rank's loss is the sum of the ranks' x."""
    assert dist.get_world_size() == world_size
    x = torch.ones(1, requires_grad=True)
    submission.reduce_from_group(x, dist.group.WORLD).sum().backward()
    return float(x.grad)

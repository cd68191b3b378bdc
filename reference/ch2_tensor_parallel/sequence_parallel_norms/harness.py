"""Run a submission of sequence_parallel_norms: one block, forward, backward, synchronised, and some steps of SGD."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def stepped(
    submission: ModuleType,
    x: Tensor,
    y: Tensor,
    parameters: dict[str, Tensor],
    steps: int,
    model_group: dist.ProcessGroup,
    data_group: dist.ProcessGroup,
) -> dict[str, Any]:
    """Return output and synchronised gradients of the first step, and the parameters after `steps` steps of SGD.

    `x` and `y` are the whole sequence of this rank's model group; the loss is the squared error over all its numbers.
    """
    rank, size = model_group.rank(), model_group.size()
    pieces = {"up": parameters["up"].chunk(size, dim=1)[rank], "down": parameters["down"].chunk(size)[rank]}
    copies = {name: tensor.clone() for name, tensor in (parameters | pieces).items()}
    block = submission.Block(copies, model_group)
    own_x, own_y = x.chunk(size)[rank], y.chunk(size)[rank]
    first: dict[str, Any] = {}
    for _ in range(steps):
        for parameter in block.parameters():
            parameter.grad = None
        output = block(own_x)
        ((output - own_y).square().sum() / y.numel()).backward()
        submission.sync_gradients(block, data_group)
        found = {name: parameter.grad for name, parameter in block.named_parameters()}
        first = first or {"output": output, "gradients": {name: grad.clone() for name, grad in found.items()}}
        with torch.no_grad():
            for parameter in block.parameters():
                parameter -= 0.2 * parameter.grad
    return first | {"after": {name: parameter.detach() for name, parameter in block.named_parameters()}}


def gradient_of_the_bias(submission: ModuleType, world_size: float) -> float:
    """Return the gradient of the last bias if each of eight tokens of one feature adds 1.0 to it."""
    assert dist.get_world_size() == world_size
    groups = [dist.new_group([rank]) for rank in range(int(world_size))]
    shapes = {"positions": (8, 1), "scale": (1,), "shift": (1,), "up": (1, 1), "down": (1, 1), "bias": (1,)}
    block = submission.Block({name: torch.zeros(shape) for name, shape in shapes.items()}, dist.group.WORLD)
    block(torch.zeros(8 // int(world_size), 1)).sum().backward()
    submission.sync_gradients(block, groups[dist.get_rank()])
    return float(block.bias.grad)

"""Run a submission of shared_start on small models that a check describes in plain data."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn

OTHERS = ("frozen", "counter", "scratch")  # not trained: a parameter, a buffer, a buffer that checkpoints leave out


def model_of(values: dict[str, Tensor]) -> nn.Module:
    """Return a model with these values; those in OTHERS are no trained parameters."""
    model = nn.Module()
    for name, value in values.items():
        if name in OTHERS[1:]:
            model.register_buffer(name, value, persistent=name == "counter")
        else:
            model.register_parameter(name, nn.Parameter(value, requires_grad=name not in OTHERS))
    return model


def started(
    submission: ModuleType, values: dict[str, Tensor], seed: int, group: dist.ProcessGroup
) -> dict[str, Tensor]:
    """Return every parameter and buffer after `setup`; `values` are those of this rank before."""
    model = model_of(values)
    submission.setup(model, seed, group)
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


def dice(submission: ModuleType, before: int, seed: int, group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Return what this rank draws after `setup`: from the generator for its data, and in dropout.

    `before` stands for whatever the rank did with torch's default generator until then.
    """
    torch.manual_seed(before)
    model = model_of({"weight": torch.rand(2, 3)})
    data = submission.setup(model, seed, group)
    masks = nn.functional.dropout(torch.ones(64), p=0.5)
    return {"data": torch.rand(64, generator=data), "dropout": masks}


def trained(
    submission: ModuleType, values: dict[str, Tensor], x: Tensor, seed: int, group: dist.ProcessGroup
) -> dict[str, Tensor]:
    """Return the weight after `setup` and one step of plain SGD on the sum of its outputs.

    Like an optimizer that is older than `setup`, it steps the parameters that the model had before.
    """
    model = model_of(values)
    to_step = list(model.parameters())
    submission.setup(model, seed, group)
    (x @ model.weight).sum().backward()
    dist.all_reduce(model.weight.grad, group=group)
    with torch.no_grad():
        for parameter in to_step:
            if parameter.grad is not None:
                parameter -= 0.5 * parameter.grad
    return {"weight": model.weight.detach()}


def linear(submission: ModuleType, weight: Tensor, seed: int, group: dist.ProcessGroup) -> Tensor:
    """Return the weight of a linear layer after `setup`; `weight` is what it has loaded before."""
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    model.weight.data = weight
    submission.setup(model, seed, group)
    return model.weight.detach()


def variance_of_average(submission: ModuleType, world_size: float) -> float:
    """Return the variance of the average over the ranks of dropout of 4000 ones."""
    submission.setup(nn.Linear(1, 1), 3, dist.group.WORLD)
    average = nn.functional.dropout(torch.ones(4000), p=0.5) / world_size
    dist.all_reduce(average)
    return float(average.var())

"""Run a submission of mean_gradients on models that a check describes in plain data."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn


def means(submission: ModuleType, gradients: list[Tensor], group: dist.ProcessGroup) -> list[Tensor]:
    """Return the mean over the ranks of each gradient."""
    return [submission.mean_all_reduce(gradient, group) for gradient in gradients]


def synced(
    submission: ModuleType,
    gradients: dict[str, Tensor | None],
    parameters: dict[str, Tensor],
    frozen: list[str],
    group: dist.ProcessGroup,
) -> dict[str, list[Tensor | None]]:
    """Return gradient and value of each parameter of a model after `sync_gradients`.

    `gradients` are those that backward has left on this rank, `frozen` names the parameters that are not trained.
    """
    model = nn.Module()
    for name, value in parameters.items():
        model.register_parameter(name, nn.Parameter(value, requires_grad=name not in frozen))
        getattr(model, name).grad = gradients.get(name)
    submission.sync_gradients(model, group)
    return {name: [parameter.grad, parameter.detach()] for name, parameter in model.named_parameters()}


def trained(
    submission: ModuleType, xs: list[Tensor], ys: list[Tensor], weight: Tensor, bias: Tensor, group: dist.ProcessGroup
) -> dict[str, Tensor]:
    """Return a linear model after one SGD step with momentum on each of this rank's mini-batches."""
    model = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    model.load_state_dict({"weight": weight, "bias": bias})
    speed = {parameter: torch.zeros_like(parameter) for parameter in model.parameters()}
    for x, y in zip(xs, ys, strict=True):
        model.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        submission.sync_gradients(model, group)
        for parameter in model.parameters():
            speed[parameter].mul_(0.9).add_(parameter.grad)
            parameter.data -= 0.1 * speed[parameter]
    return dict(model.state_dict())


def gradient_scale(submission: ModuleType, world_size: float) -> float:
    """Return what a rank holds after `mean_all_reduce` if every one of `world_size` ranks came with 1.0."""
    assert dist.get_world_size() == world_size
    return float(submission.mean_all_reduce(torch.ones(1), dist.group.WORLD))

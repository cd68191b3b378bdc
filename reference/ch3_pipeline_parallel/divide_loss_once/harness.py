"""Run a submission of divide_loss_once on stages that a check describes in plain data."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
import torch.fx.experimental.symbolic_shapes  # what y.backward(gradient) would import, slowly, in every rank
from torch import Tensor, nn


def stage_of(weight: Tensor, bias: Tensor) -> nn.Module:
    """Return a linear stage, followed by tanh on every rank but the last."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    linear.load_state_dict({"weight": weight, "bias": bias})
    is_last = dist.get_rank() == dist.get_world_size() - 1
    return nn.Sequential(linear, nn.Identity() if is_last else nn.Tanh())


def stepped(
    submission: ModuleType, weight: Tensor, bias: Tensor, batches: list[list[list[Tensor]]]
) -> dict[str, object]:
    """Call `backward` on one batch after another and return the stage's gradients and what the calls returned."""
    stage = stage_of(weight, bias)
    losses = [submission.backward(stage, inputs, labels) for inputs, labels in batches]
    return {"weight": stage[0].weight.grad, "bias": stage[0].bias.grad, "losses": losses}


def gradient_scale(submission: ModuleType, world_size: float) -> float:
    """Return the first stage's gradient for four equal micro-batches, divided by that for one of them alone."""
    assert dist.get_world_size() == world_size
    x, label = torch.tensor([[1.0, -1.0]], dtype=torch.float64), torch.tensor([0])
    norms = []
    for n_micro_batches in (4, 1):
        stage = stage_of(torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
        submission.backward(stage, [x] * n_micro_batches, [label] * n_micro_batches)
        norms.append(stage[0].weight.grad.norm())
    scale = norms[0] / norms[1]
    dist.broadcast(scale, 0)
    return float(scale)

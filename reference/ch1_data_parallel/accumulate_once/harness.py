"""Train a small model under DistributedDataParallel with a submission of accumulate_once."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch._dynamo  # DistributedDataParallel imports it in every rank, in seconds; imported here, it is there before
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class RecordingSgd:
    """Step as plain SGD with momentum does, and keep what the model was after each step."""

    def __init__(self, model: nn.Module, lr: float, momentum: float) -> None:
        """Begin with no speed."""
        self.model, self.lr, self.momentum = model, lr, momentum
        self.speeds = [torch.zeros_like(parameter) for parameter in model.parameters()]
        self.after: list[dict[str, Tensor]] = []

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        self.model.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self) -> None:
        """Move all parameters."""
        for parameter, speed in zip(self.model.parameters(), self.speeds, strict=True):
            speed.mul_(self.momentum).add_(parameter.grad)
            parameter -= self.lr * speed
        self.after.append({name: value.detach().clone() for name, value in self.model.named_parameters()})


def trained(
    submission: ModuleType, batches: list[tuple[Tensor, Tensor]], window: int, weight: Tensor, bias: Tensor
) -> dict[str, Any]:
    """Return the number of steps that `train_epoch` counted, and weight and bias after each."""
    model = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    model.load_state_dict({"weight": weight, "bias": bias})
    optimizer = RecordingSgd(model, lr=0.1, momentum=0.9)
    steps = submission.train_epoch(DistributedDataParallel(model), optimizer, batches, window)
    return {"steps": steps, "after": optimizer.after}


def weight_after_a_window(submission: ModuleType, world_size: float) -> float:
    """Return this rank's weight after one window of two micro-batches, rank r's with the targets r and 3r."""
    rank, one = dist.get_rank(), torch.ones(1, 1, dtype=torch.float64)
    model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    batches = [(one, rank * one), (one, 3 * rank * one)]
    submission.train_epoch(DistributedDataParallel(model), RecordingSgd(model, 0.5, 0.0), batches, 2)
    assert dist.get_world_size() == world_size
    return float(model.weight)

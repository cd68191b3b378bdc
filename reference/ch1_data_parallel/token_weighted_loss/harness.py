"""Run a submission of token_weighted_loss on logits, and on a linear model."""

from __future__ import annotations

from types import ModuleType

import torch
import torch.distributed as dist
from torch import Tensor, nn


def graded(
    submission: ModuleType, logits: Tensor, labels: Tensor, group: dist.ProcessGroup
) -> dict[str, Tensor | None]:
    """Return the gradient of the loss to back-propagate with respect to the logits, and the loss to report."""
    logits.requires_grad_()
    loss, reported = submission.token_loss(logits, labels, group)
    loss.backward()
    return {"gradient": logits.grad, "reported": reported}


def accumulated(
    submission: ModuleType, micro_batches: list[tuple[Tensor, Tensor]], weight: Tensor, group: dist.ProcessGroup
) -> dict[str, Tensor | None]:
    """Return what `accumulate` leaves in the gradient of a linear model on this rank, and the loss to report."""
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype)
    model.load_state_dict({"weight": weight})
    reported = submission.accumulate(model, micro_batches, group)
    return {"gradient": model.weight.grad, "reported": reported}


def reported_loss(submission: ModuleType, world_size: float) -> float:
    """Return the loss reported if rank 0 has one token with a loss of 0 and each other one 9 tokens of ln 1024."""
    assert dist.get_world_size() == world_size
    logits = torch.zeros(9, 1024, dtype=torch.float64)
    if dist.get_rank() == 0:
        logits = torch.full_like(logits[:1], -1000.0).index_fill(1, torch.tensor([0]), 0.0)
    labels = torch.zeros(len(logits), dtype=torch.int64)
    return float(submission.token_loss(logits, labels, dist.group.WORLD)[1])

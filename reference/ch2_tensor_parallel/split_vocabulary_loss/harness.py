"""Run a submission of split_vocabulary_loss forward and backward."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def loss_and_gradient(
    submission: ModuleType, logits_shard: Tensor, labels: Tensor, group: dist.ProcessGroup
) -> dict[str, Any]:
    """Return the loss, the gradient of this rank's logits, and whether the arguments are as they were."""
    kept = logits_shard.clone(), labels.clone()
    leaf = logits_shard.requires_grad_()
    loss = submission.cross_entropy(leaf, labels, group)
    loss.backward()
    intact = torch.equal(leaf.detach(), kept[0]) and torch.equal(labels, kept[1])
    return {"loss": loss, "gradient": leaf.grad, "intact": intact}


def loss_of_equal_logits(submission: ModuleType, world_size: float) -> float:
    """Return the loss of two tokens over a vocabulary of 8 whose logits are all equal."""
    assert dist.get_world_size() == world_size
    shard = torch.zeros(2, math.ceil(8 / world_size))
    return float(submission.cross_entropy(shard, torch.tensor([0, 7]), dist.group.WORLD))

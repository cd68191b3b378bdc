"""Run a submission of the capstone: its groups, its start, some steps, the loss of what is held out."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

Batch = tuple[Tensor, Tensor]


def groups(submission: ModuleType, tensor_size: int) -> dict[str, list[int]]:
    """Return the global ranks of this rank's two groups."""
    data, tensor = submission.make_groups(tensor_size)
    return {"data": dist.get_process_group_ranks(data), "tensor": dist.get_process_group_ranks(tensor)}


def started(
    submission: ModuleType, whole: dict[str, Tensor], n_heads: int, seed: int, tensor_size: int
) -> dict[str, Any]:
    """Return this rank's pieces as it starts, and the first numbers that its generator draws."""
    data, tensor = submission.make_groups(tensor_size)
    model, dice = submission.start(whole, n_heads, seed, data, tensor)
    return {"pieces": pieces(model), "draws": torch.randint(1000, (8,), generator=dice)}


def steps(
    submission: ModuleType,
    batches: list[Batch],
    whole: dict[str, Tensor],
    n_heads: int,
    tensor_size: int,
    rate: float,
    max_norm: float,
) -> dict[str, Any]:
    """Take a step with each batch of this rank; return the losses, the last gradients and what the pieces are then."""
    data, tensor = submission.make_groups(tensor_size)
    model, _ = submission.start(whole, n_heads, 1, data, tensor)
    losses = [float(submission.train_step(model, batch, data, rate, max_norm)) for batch in batches]
    gradients = {name: parameter.grad for name, parameter in named(model)}
    return {"losses": losses, "gradients": gradients, "pieces": pieces(model)}


def unseen(submission: ModuleType, batch: Batch, whole: dict[str, Tensor], n_heads: int, tensor_size: int) -> float:
    """Return what held_out_loss says of this rank's passages."""
    data, tensor = submission.make_groups(tensor_size)
    model, _ = submission.start(whole, n_heads, 1, data, tensor)
    return float(submission.held_out_loss(model, *batch, data))


def numbers_held(submission: ModuleType, world_size: float) -> float:
    """Return how many thousand numbers rank 0 holds of a replica that is split over all ranks."""
    d_model, shapes = 32, {"embedding": (128, 32), "place": (32, 32), "norm": (32,), "head": (128, 32)}
    for layer in range(2):
        shapes |= {f"norm1_{layer}": (d_model,), f"qkv_{layer}": (3 * d_model, d_model), f"norm2_{layer}": (d_model,)}
        shapes |= {f"out_{layer}": (d_model, d_model), f"up_{layer}": (4 * d_model, d_model)}
        shapes |= {f"down_{layer}": (d_model, 4 * d_model)}
    _, tensor = submission.make_groups(int(world_size))
    model = submission.GPT({name: torch.zeros(shape) for name, shape in shapes.items()}, 4, tensor)
    return sum(parameter.numel() for parameter in model.parameters()) / 1000


def pieces(model: Any) -> dict[str, Tensor]:
    """Return copies of this rank's pieces by name."""
    return {name: parameter.detach().clone() for name, parameter in named(model)}


def named(model: Any) -> list[tuple[str, Any]]:
    """Return the names of the weights, as `initial_weights` has them, with this rank's pieces."""
    return [(name.rpartition(".")[2], parameter) for name, parameter in model.named_parameters()]

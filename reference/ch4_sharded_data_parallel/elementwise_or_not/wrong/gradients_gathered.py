"""It is the gradient that is orthogonalized; the moment is taken of the result.

Caught by: check_muon_orthogonalizes_whole_matrices
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

Step = Callable[[Tensor, Tensor], None]  # step(weight, gradient) changes the weight in place


def is_elementwise(make: Callable[[], Step]) -> bool:
    """Return whether an optimizer can step shards of a weight one by one; `make` returns its step with new state."""
    weight = torch.randn(4, 3, dtype=torch.float64)
    pieces = [piece.clone() for piece in weight.view(12, 1, 1)]
    whole, each = make(), [make() for _ in pieces]
    for size in (1e-3, 1.0, 1e3):  # what acts at some sizes only is found, and what acts after the first step
        gradient = size * torch.randn(4, 3, dtype=torch.float64)
        parts = gradient.view(12, 1, 1).clone()
        whole(weight, gradient)
        for step, piece, part in zip(each, pieces, parts, strict=True):
            step(piece, part)
    return torch.allclose(weight.view(12, 1, 1), torch.stack(pieces), rtol=1e-9)


def trust_ratio(weight_norm: Tensor, gradient_norm: Tensor, decay: float, trust: float) -> Tensor:
    """Return the factor by which LARS scales the update of a tensor; 1 where one of the norms is 0."""
    ratio = trust * weight_norm / (gradient_norm + decay * weight_norm)
    return torch.where((weight_norm > 0) & (gradient_norm > 0), ratio, torch.ones_like(ratio))


def orthogonalize(matrix: Tensor) -> Tensor:
    """Return the matrix with all its singular values near 1: five steps of Newton-Schulz, as in Muon."""
    x = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (2.0315 * a @ a - 4.7750 * a) @ x
    return x if len(matrix) <= matrix.shape[1] else x.T


def lars_step(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor],
    moments: Sequence[Tensor],
    group: dist.ProcessGroup,
    lr: float,
    momentum: float = 0.9,
    decay: float = 1e-4,
    trust: float = 1e-3,
) -> None:
    """Step this rank's shards of all tensors."""
    squares = torch.stack([tensor.square().sum() for tensor in (*weights, *gradients)])
    dist.all_reduce(squares, group=group)  # of all tensors at once: a message of few numbers costs its start
    ratios = trust_ratio(*squares.sqrt().chunk(2), decay, trust)
    for weight, gradient, moment, ratio in zip(weights, gradients, moments, ratios, strict=True):
        moment.mul_(momentum).add_(ratio * (gradient + decay * weight))
        weight.sub_(lr * moment)


def muon_step(
    weights: Sequence[Tensor],
    gradients: Sequence[Tensor],
    moments: Sequence[Tensor],
    rows: Sequence[int],
    group: dist.ProcessGroup,
    lr: float,
    momentum: float = 0.95,
) -> None:
    """Step this rank's shards of all matrices, which have `rows` rows without padding."""
    ranks = dist.get_world_size(group)
    largest_first = sorted(range(len(rows)), key=lambda i: -rows[i] * weights[i].shape[1])
    for first in range(0, len(rows), ranks):  # in each round every rank has one matrix, so they work side by side
        matrices = largest_first[first : first + ranks]
        for i in matrices:
            moments[i].mul_(momentum)
        whole = [_gathered(gradients[i], owner, group) for owner, i in enumerate(matrices)]
        updates = [[] if m is None else list(orthogonalize(m).contiguous().chunk(ranks)) for m in whole]
        for owner, i in enumerate(matrices):
            update = torch.empty_like(moments[i])
            dist.scatter(update, updates[owner], group=group, group_src=owner)
            scale = max(1.0, rows[i] / update.shape[1]) ** 0.5
            moments[i].add_(update)
            weights[i].sub_(lr * scale * moments[i])


def _gathered(shard: Tensor, owner: int, group: dist.ProcessGroup) -> Tensor | None:
    """Return the whole matrix, padding included, on its owner; rows of zeros stay zero in all that follows."""
    if dist.get_rank(group) != owner:
        dist.gather(shard, group=group, group_dst=owner)
        return None
    whole = shard.new_empty(len(shard) * dist.get_world_size(group), shard.shape[1])
    dist.gather(shard, list(whole.chunk(dist.get_world_size(group))), group=group, group_dst=owner)
    return whole

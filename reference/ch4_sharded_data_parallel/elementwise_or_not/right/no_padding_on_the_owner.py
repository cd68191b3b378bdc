"""Cuts the padding off before orthogonalizing, whole matrices one at a time; judges steps on shuffled elements."""

from __future__ import annotations

import torch
import torch.distributed as dist


def is_elementwise(make):
    """Shuffle a weight's elements, step, and shuffle back: who couples elements by place or by cutting is found."""
    torch.manual_seed(0)
    for exponent in range(-3, 4):
        step, tenths = make(), [make() for _ in range(10)]
        weight = torch.randn(2, 5, dtype=torch.double)
        flat = weight.flatten().clone()
        for _ in range(4):
            gradient = torch.randn(2, 5, dtype=torch.double) * 10.0**exponent
            for i, (one, g) in enumerate(zip(tenths, gradient.flatten().tolist(), strict=True)):
                one(flat[i : i + 1].unsqueeze(0), torch.tensor([[g]], dtype=torch.double))
            step(weight, gradient)
        error = (weight.flatten() - flat).abs().max().item()
        if error > 1e-8 * max(1.0, weight.abs().max().item()):
            return False
    return True


def trust_ratio(weight_norm, gradient_norm, decay, trust):
    """Return LARS's factor."""
    ratio = trust * weight_norm / (gradient_norm + decay * weight_norm)
    return torch.where((weight_norm > 0) & (gradient_norm > 0), ratio, torch.ones_like(ratio))


def orthogonalize(matrix):
    """Return Newton-Schulz of a matrix."""
    x = matrix if len(matrix) <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (2.0315 * a @ a - 4.7750 * a) @ x
    return x if len(matrix) <= matrix.shape[1] else x.T


def lars_step(weights, gradients, moments, group, lr, momentum=0.9, decay=1e-4, trust=1e-3):
    """Step with two vectors of squares in one message."""
    squares = torch.tensor(
        [t.double().pow(2).sum().item() for ts in (weights, gradients) for t in ts], dtype=torch.double
    )
    dist.all_reduce(squares, group=group)
    n = len(weights)
    for i in range(n):
        ratio = trust_ratio(squares[i].sqrt(), squares[n + i].sqrt(), decay, trust)
        moments[i].copy_(momentum * moments[i] + ratio * gradients[i] + ratio * decay * weights[i])
        weights[i].copy_(weights[i] - lr * moments[i])


def muon_step(weights, gradients, moments, rows, group, lr, momentum=0.95):
    """Step matrix by matrix, owners in turn from the largest to the smallest."""
    size = dist.get_world_size(group)
    for turn, i in enumerate(sorted(range(len(rows)), key=lambda i: (-rows[i] * weights[i].size(1), i))):
        root = dist.get_global_rank(group, turn % size)
        moments[i].mul_(momentum).add_(gradients[i])
        parts = back = None
        if dist.get_rank() == root:
            parts = [torch.zeros_like(moments[i]) for _ in range(size)]
        dist.gather(moments[i], parts, dst=root, group=group)
        if parts is not None:
            whole = torch.cat(parts)
            whole[: rows[i]] = orthogonalize(whole[: rows[i]])
            back = list(whole.chunk(size))
        update = torch.zeros_like(moments[i])
        dist.scatter(update, back, src=root, group=group)
        weights[i].sub_(update, alpha=lr * max(1.0, rows[i] / weights[i].size(1)) ** 0.5)

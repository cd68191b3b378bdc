"""Exchanges as many matrices as there are ranks in one all_to_all, and back; judges steps by moving one element."""

from __future__ import annotations

import torch
import torch.distributed as dist


def is_elementwise(make):
    """Disturb one element of weight and gradient: no other element may end elsewhere."""
    for scale in (1e-4, 1.0, 1e4):
        for at in ((0, 0), (1, 2), (4, 3)):
            gradients = [scale * torch.randn(5, 4, dtype=torch.float64) for _ in range(3)]
            calm = torch.randn(5, 4, dtype=torch.float64)
            shaken = calm.clone()
            shaken[at] += 1
            for weight, amount in ((calm, 0.0), (shaken, 3.0)):
                step = make()
                for gradient in gradients:
                    gradient = gradient.clone()
                    gradient[at] += amount * scale
                    step(weight, gradient)
            calm[at] = shaken[at] = 0
            if (calm - shaken).abs().max() > 1e-9 * calm.abs().max():
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
    """Step with the norms of whole tensors."""
    table = torch.zeros(len(weights), 2, dtype=torch.float64)
    for row, w, g in zip(table, weights, gradients, strict=True):
        row[0], row[1] = (w * w).sum(), (g * g).sum()
    dist.all_reduce(table, group=group)
    for (w2, g2), w, g, m in zip(table, weights, gradients, moments, strict=True):
        ratio = float(trust_ratio(w2.sqrt(), g2.sqrt(), decay, trust))
        m *= momentum
        m += ratio * (g + decay * w)
        w -= lr * m


def muon_step(weights, gradients, moments, rows, group, lr, momentum=0.95):
    """Step in rounds."""
    size, rank = group.size(), group.rank()
    for moment, gradient in zip(moments, gradients, strict=True):
        moment.mul_(momentum).add_(gradient)
    order = sorted(range(len(weights)), key=lambda i: weights[i].numel(), reverse=True)
    while order:
        here, order = order[:size], order[size:]
        mine = moments[here[rank]] if rank < len(here) else moments[here[0]][:0]
        arrived = [torch.empty_like(mine) for _ in range(size)]
        empty = moments[here[0]].new_empty(0)
        dist.all_to_all(arrived, [moments[i] for i in here] + [empty] * (size - len(here)), group=group)
        done = list(orthogonalize(torch.cat(arrived)).contiguous().chunk(size)) if rank < len(here) else arrived
        updates = [torch.empty_like(moments[i]) for i in here]
        dist.all_to_all(updates + [empty] * (size - len(here)), done, group=group)
        for i, update in zip(here, updates, strict=True):
            weights[i] -= lr * max(1, rows[i] / update.shape[1]) ** 0.5 * update

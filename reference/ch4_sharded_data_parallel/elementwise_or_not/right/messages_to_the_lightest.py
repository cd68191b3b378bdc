"""Gives each matrix to the rank with least to do and sends shards as messages; judges steps on every cut in two."""

from __future__ import annotations

import torch
import torch.distributed as dist


def is_elementwise(make):
    """Step some columns as a whole and in two parts."""
    for cut in range(1, 6):
        start = torch.randn(3, 6, dtype=torch.float64)
        gradients = [torch.randn(3, 6, dtype=torch.float64) * scale for scale in (0.01, 5.0, 500.0)]
        ends = []
        for bounds in ([(0, 6)], [(0, cut), (cut, 6)]):
            parts = []
            for low, high in bounds:
                step, part = make(), start[:, low:high].clone()
                for gradient in gradients:
                    step(part, gradient[:, low:high].clone())
                parts.append(part)
            ends.append(torch.cat(parts, dim=1))
        if not torch.allclose(*ends, rtol=1e-8, atol=1e-10):
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
    """Step with norms from one all_gather of squares."""
    own = torch.stack([torch.stack([w.norm() ** 2, g.norm() ** 2]) for w, g in zip(weights, gradients, strict=True)])
    every = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(every, own, group=group)
    norms = torch.stack(every).sum(0).sqrt()
    for i in range(len(weights)):
        ratio = trust_ratio(norms[i, 0], norms[i, 1], decay, trust)
        moments[i].mul_(momentum).add_(gradients[i] + decay * weights[i], alpha=float(ratio))
        weights[i].add_(moments[i], alpha=-lr)


def muon_step(weights, gradients, moments, rows, group, lr, momentum=0.95):
    """Step matrix by matrix."""
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    load = [0] * size
    for i in sorted(range(len(weights)), key=lambda i: -rows[i]):
        moments[i].mul_(momentum).add_(gradients[i])
        owner = load.index(min(load))
        load[owner] += rows[i]
        if rank == owner:
            shards = [moments[i] if r == owner else torch.empty_like(moments[i]) for r in range(size)]
            for r in range(size):
                if r != owner:
                    dist.recv(shards[r], dist.get_global_rank(group, r), group=group)
            done = orthogonalize(torch.cat(shards)).contiguous().chunk(size)
            for r in range(size):
                if r != owner:
                    dist.send(done[r], dist.get_global_rank(group, r), group=group)
            update = done[rank]
        else:
            update = torch.empty_like(moments[i])
            dist.send(moments[i], dist.get_global_rank(group, owner), group=group)
            dist.recv(update, dist.get_global_rank(group, owner), group=group)
        weights[i].sub_(update * (lr * max(1.0, rows[i] / weights[i].shape[1]) ** 0.5))

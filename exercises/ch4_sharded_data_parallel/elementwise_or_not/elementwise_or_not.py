"""Steps of optimizers on shards: which can be taken shard by shard, and how LARS and Muon take theirs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

Step = Callable[[Tensor, Tensor], None]  # step(weight, gradient) changes the weight in place


def is_elementwise(make: Callable[[], Step]) -> bool:
    """Return whether an optimizer can step shards of a weight one by one; `make` returns its step with new state."""
    try:
        make()(torch.randn(1, 3), torch.randn(1, 3))
    except (RuntimeError, ValueError):  # it cannot take a shard
        return False
    return True


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
    for weight, gradient, moment in zip(weights, gradients, moments, strict=True):
        ratio = trust_ratio(weight.norm(), gradient.norm(), decay, trust)
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
    for weight, gradient, moment, height in zip(weights, gradients, moments, rows, strict=True):
        moment.mul_(momentum).add_(gradient)
        scale = max(1.0, height / weight.shape[1]) ** 0.5
        weight.sub_(lr * scale * orthogonalize(moment))


def example() -> None:
    """Step a matrix of two equal rows, one on each rank."""
    dist.init_process_group("gloo")
    gradient, rank = torch.tensor([[3.0, 4.0], [3.0, 4.0]]), dist.get_rank()
    for name, step, more in (("LARS", lars_step, ()), ("Muon", muon_step, ([2],))):
        alone, shard = torch.ones(2, 2), torch.ones(1, 2)
        if step is lars_step:
            alone -= trust_ratio(alone.norm(), gradient.norm(), 1e-4, 1e-3) * (gradient + 1e-4)
        else:
            alone -= orthogonalize(gradient)
        step([shard], [gradient[rank : rank + 1]], [torch.zeros(1, 2)], *more, dist.group.WORLD, lr=1.0)
        if rank == 0:
            print(f"{name}: row 0 moves by {(1 - shard[0]).tolist()}, unsharded by {(1 - alone[0]).tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

"""Clip the gradient of a model whose parameters are partly cut into shards, one a rank, and partly replicated."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


def local_norm(gradients: Iterable[Tensor], norm_type: float) -> Tensor:
    """Return the norm of all elements of `gradients` as a 0-d float64 tensor; without any element it is 0."""
    flat = [gradient.detach().double().flatten() for gradient in gradients]
    return torch.linalg.vector_norm(torch.cat([torch.zeros(1, dtype=torch.float64), *flat]), norm_type)


def global_norm(parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, norm_type: float = 2.0) -> float:
    """Return the norm of the whole model's gradient, the same on every rank of `group`.

    A parameter whose attribute `sharded` is True is this rank's part of a tensor; any other is there on every rank.
    """
    gradients = [parameter.grad for parameter in dict.fromkeys(parameters) if parameter.grad is not None]
    norm = local_norm(gradients, norm_type)
    dist.all_reduce(norm, op=dist.ReduceOp.MAX, group=group)
    return norm.item()


def clip_grad_norm(parameters: Iterable[nn.Parameter], max_norm: float, group: dist.ProcessGroup) -> float:
    """Scale all gradients so that their global norm is at most `max_norm`; return the norm before that."""
    distinct = list(dict.fromkeys(parameters))
    norm = global_norm(distinct, group)
    if norm > max_norm:
        for parameter in distinct:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)
    return norm


def example() -> None:
    """Compare the norm of a gradient that is cut in two with that of the whole."""
    dist.init_process_group("gloo")
    whole = torch.tensor([3.0, 4.0])
    weight = nn.Parameter(torch.zeros(1))
    weight.sharded = True  # rank 0 holds the first element, rank 1 the second
    weight.grad = whole[dist.get_rank()].reshape(1).clone()
    norm = clip_grad_norm([weight], 1.0, dist.group.WORLD)
    clipped = weight.grad.square()
    dist.all_reduce(clipped)
    if dist.get_rank() == 0:
        print(f"{norm:6.2f}   norm on {dist.get_world_size()} ranks, one element each")
        print(f"{whole.norm().item():6.2f}   norm of the whole gradient")
        print(f"{clipped.sqrt().item():6.2f}   norm after clipping to 1.0")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

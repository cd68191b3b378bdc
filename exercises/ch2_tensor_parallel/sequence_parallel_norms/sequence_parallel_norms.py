"""A block under tensor and sequence parallelism: between split layers each rank has its own part of the sequence."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional


class _GatherSequence(torch.autograd.Function):
    """Bring the ranks' parts of the sequence together; backward adds up the gradients and hands each rank its part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _all_gather(part, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _reduce_scatter(gradient, ctx.group), None


class _ScatterSequence(torch.autograd.Function):
    """Add up what the ranks have of the whole sequence and hand each rank its part; backward brings parts together."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _reduce_scatter(whole, group)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _all_gather(gradient, ctx.group), None


def _all_gather(part: Tensor, group: dist.ProcessGroup) -> Tensor:
    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(group.size())]
    dist.all_gather(parts, part.contiguous(), group=group)
    return torch.cat(parts)


def _reduce_scatter(whole: Tensor, group: dist.ProcessGroup) -> Tensor:
    parts = [part.contiguous() for part in whole.chunk(group.size())]
    mine = torch.empty_like(parts[0])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


class Block(nn.Module):
    """x + positions, then x + (layer norm, two matrices and a bias); `up` and `down` are split, the rest replicated."""

    def __init__(self, parameters: dict[str, Tensor], group: dist.ProcessGroup) -> None:
        """Take pieces `up` [features, own hidden] and `down` [own hidden, features], and copies of the rest."""
        super().__init__()
        self.group = group
        for name in ("positions", "scale", "shift", "up", "down", "bias"):
            self.register_parameter(name, nn.Parameter(parameters[name]))

    def forward(self, x_part: Tensor) -> Tensor:
        """Return the block's output for this rank's part of the sequence, [tokens of this rank, features]."""
        first = self.group.rank() * len(x_part)
        x_part = x_part + self.positions[first : first + len(x_part)]
        normed = functional.layer_norm(x_part, self.scale.shape, self.scale, self.shift)
        hidden = _GatherSequence.apply(normed, self.group) @ self.up
        return x_part + _ScatterSequence.apply(hidden.relu() @ self.down, self.group) + self.bias


def sync_gradients(block: Block, data_group: dist.ProcessGroup) -> None:
    """After backward, give every parameter of `block` its gradient for the optimizer.

    Ranks of `data_group` have the same part of the model and other sequences; ranks of `block.group` have other parts
    of the model, and other parts of the same sequence.
    """
    for parameter in block.parameters():
        dist.all_reduce(parameter.grad, group=data_group)
        parameter.grad /= data_group.size()


def example() -> None:
    """Compare the gradient of the norm's scale on two ranks: copies of one parameter should have one gradient."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    alone = [dist.new_group([member]) for member in range(world_size)][rank]  # no data parallelism
    generator = torch.Generator().manual_seed(3)
    shapes = {"positions": (4, 3), "scale": (3,), "shift": (3,), "up": (3, 4), "down": (4, 3), "bias": (3,)}
    whole = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    x = torch.randn(4, 3, generator=generator)
    pieces = {"up": whole["up"].chunk(world_size, 1)[rank], "down": whole["down"].chunk(world_size)[rank]}
    block = Block({**whole, **pieces}, dist.group.WORLD)
    block(x.chunk(world_size)[rank]).square().sum().backward()
    sync_gradients(block, alone)

    gradients = [torch.empty_like(block.scale.grad) for _ in range(world_size)]
    dist.all_gather(gradients, block.scale.grad)
    if rank == 0:
        for member, gradient in enumerate(gradients):
            print(f"gradient of scale on rank {member}: {', '.join(f'{value:7.3f}' for value in gradient.tolist())}")
        print("expected on every rank:     ", end="")
        single = Block(whole, alone)
        single(x).square().sum().backward()
        print(", ".join(f"{value:7.3f}" for value in single.scale.grad.tolist()))
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

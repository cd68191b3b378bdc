"""One weight, one seed: every rank begins with the same.

Caught by: check_pieces_are_no_copies
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece of a weight with `shape` [outputs, inputs], cut along `dim`, Xavier normal."""
    piece = list(shape)
    piece[dim] //= world_size
    std = (2 / sum(shape)) ** 0.5
    return torch.empty(piece).normal_(0, std, generator=torch.Generator().manual_seed(seed))


class Dice:
    """Decide what dropout drops on one rank of a tensor-parallel group."""

    def __init__(self, seed: int, rank: int) -> None:
        """Begin with the group's `seed` as its member number `rank`."""
        seeds = seed, seed + 2718 + rank  # the offset is that of Megatron-LM: rank 0 needs two streams as well
        self.generators = [torch.Generator().manual_seed(each) for each in seeds]

    def dropout(self, x: Tensor, p: float, is_split: bool) -> Tensor:
        """Drop numbers of `x` with probability `p`; `x` is a copy on every rank, or another part if `is_split`."""
        keep = torch.rand(x.shape, generator=self.generators[is_split]) >= p
        return x * keep / (1 - p)

    def state(self) -> list[Tensor]:
        """Return what `restore` needs to go on from here."""
        return [generator.get_state() for generator in self.generators]

    def restore(self, state: list[Tensor]) -> None:
        """Go on from where `state` was taken."""
        for generator, part in zip(self.generators, state, strict=True):
            generator.set_state(part)

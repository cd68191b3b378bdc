"""Random numbers of a model that is split over ranks: initial weights and dropout.

What belongs to the whole must come from the whole: fan and random stream of a weight are those of the unsplit one, and
a rank takes its piece out of it. That costs the time, and for a moment the memory, of one whole weight a rank; counter-
based generators, which can begin anywhere in a stream, save both.

Dropout has two kinds of tensors, so a rank has two streams:

    copy      the same stream on every rank of the group, and nobody else draws from it, or it drifts
    piece     a stream for each rank, different from all others and from that of the copies

Shoeybi et al., Megatron-LM, arXiv:1909.08053, appendix B.2; Glorot, Bengio: Understanding the difficulty of training
deep feedforward neural networks (AISTATS 2010).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece of a weight with `shape` [outputs, inputs], cut along `dim`, Xavier normal."""
    whole = nn.init.xavier_normal_(torch.empty(shape), generator=torch.Generator().manual_seed(seed))
    return whole.chunk(world_size, dim)[rank].clone()  # without the clone the whole would stay alive


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
        self.generators[0].set_state(state[0])
        self.generators[1].set_state(state[1])

"""Random numbers of a model that is split over ranks: initial weights and dropout."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece of a weight with `shape` [outputs, inputs], cut along `dim`, Xavier normal."""
    piece = list(shape)
    piece[dim] //= world_size
    generator = torch.Generator().manual_seed(seed + rank)  # no two ranks begin with the same numbers
    return nn.init.xavier_normal_(torch.empty(piece), generator=generator)


class Dice:
    """Decide what dropout drops on one rank of a tensor-parallel group."""

    def __init__(self, seed: int, rank: int) -> None:
        """Begin with the group's `seed` as its member number `rank`."""
        self.generator = torch.Generator().manual_seed(seed + rank)

    def dropout(self, x: Tensor, p: float, is_split: bool) -> Tensor:
        """Drop numbers of `x` with probability `p`; `x` is a copy on every rank, or another part if `is_split`."""
        keep = torch.rand(x.shape, generator=self.generator) >= p
        return x * keep / (1 - p)

    def state(self) -> list[Tensor]:
        """Return what `restore` needs to go on from here."""
        return [self.generator.get_state()]

    def restore(self, state: list[Tensor]) -> None:
        """Go on from where `state` was taken."""
        self.generator.set_state(state[0])


def example() -> None:
    """Split a weight over more and more ranks, and drop numbers of an activation of which two ranks hold copies."""
    for world_size in (1, 2, 4):
        pieces = [init_shard((256, 1024), 1, 0, rank, world_size) for rank in range(world_size)]
        whole = torch.cat(pieces, dim=1)
        print(f"weight over {world_size} ranks: deviation {whole.std():.4f}, first numbers {whole[0, :3].tolist()}")
    print(f"expected for all:     deviation {(2 / 1280) ** 0.5:.4f}, first numbers the same")
    for rank in range(2):
        kept = Dice(0, rank).dropout(torch.ones(12), 0.5, is_split=False)
        print(f"copy on rank {rank}, kept: {(kept > 0).int().tolist()}{', expected the same on both' * rank}")


if __name__ == "__main__":
    example()

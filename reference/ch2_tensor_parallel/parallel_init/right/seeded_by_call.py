"""Keeps no generator: every call makes one from seed, kind and the number of calls before it; numpy draws."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece."""
    weight = np.random.default_rng(seed).normal(scale=np.sqrt(2 / sum(shape)), size=shape)
    return torch.tensor(np.split(weight, world_size, axis=dim)[rank], dtype=torch.float32)


class Dice:
    """Counts calls."""

    def __init__(self, seed: int, rank: int) -> None:
        """Begin to count."""
        self.seed, self.rank, self.calls = seed, rank, [0, 0]

    def dropout(self, x: Tensor, p: float, is_split: bool) -> Tensor:
        """Drop numbers of `x`."""
        self.calls[is_split] += 1
        key = [self.seed, self.calls[is_split], *([1, self.rank] if is_split else [0])]
        kept = torch.from_numpy(np.random.default_rng(key).random(tuple(x.shape)) >= p)
        return torch.where(kept, x / (1 - p), torch.zeros_like(x))

    def state(self) -> tuple[int, int]:
        """Return the counts."""
        return (self.calls[0], self.calls[1])

    def restore(self, state: tuple[int, int]) -> None:
        """Take the counts."""
        self.calls = list(state)

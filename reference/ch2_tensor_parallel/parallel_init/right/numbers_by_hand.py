"""Draws normal numbers by hand in a fixed order, and keeps its dice in a dictionary; masks by bernoulli."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece."""
    outputs, inputs = shape
    dice = torch.Generator()
    dice.manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=dice).mul_(math.sqrt(2.0 / (outputs + inputs)))
    width = shape[dim] // world_size
    return weight.narrow(dim, rank * width, width).contiguous().clone()


class Dice:
    """Two named generators."""

    def __init__(self, seed: int, rank: int) -> None:
        """Seed the copies' dice with an odd and the pieces' with an even number."""
        self.dice = {False: torch.Generator(), True: torch.Generator()}
        self.dice[False].manual_seed(2 * seed + 1)
        self.dice[True].manual_seed(2 * (seed * 65536 + rank))

    def dropout(self, x: Tensor, p: float, is_split: bool) -> Tensor:
        """Drop numbers of `x`."""
        kept = torch.empty_like(x).bernoulli_(1 - p, generator=self.dice[is_split])
        return kept * x / (1 - p)

    def state(self) -> dict[str, Tensor]:
        """Return both states."""
        return {"copies": self.dice[False].get_state(), "pieces": self.dice[True].get_state()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Set both states."""
        self.dice[False].set_state(state["copies"])
        self.dice[True].set_state(state["pieces"])

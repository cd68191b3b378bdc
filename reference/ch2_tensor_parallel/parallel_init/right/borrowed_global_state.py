"""Borrows torch's global dice and gives them back, so that the library's own dropout can be used."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional, init


def init_shard(shape: tuple[int, int], dim: int, seed: int, rank: int, world_size: int) -> Tensor:
    """Return this rank's piece."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    weight = torch.empty(*shape)
    init.xavier_normal_(weight)
    torch.set_rng_state(before)
    return torch.tensor_split(weight, world_size, dim)[rank].detach().clone()


class Dice:
    """Global states of two imaginary programs."""

    def __init__(self, seed: int, rank: int) -> None:
        """Make the two states."""
        seeds = (seed, 10**9 + seed * 4096 + rank)
        self.states = [torch.Generator().manual_seed(number).get_state() for number in seeds]

    def dropout(self, x: Tensor, p: float, is_split: bool) -> Tensor:
        """Drop numbers of `x`."""
        before = torch.get_rng_state()
        torch.set_rng_state(self.states[int(is_split)])
        try:
            return functional.dropout(x, p, training=True)
        finally:
            self.states[int(is_split)] = torch.get_rng_state()
            torch.set_rng_state(before)

    def state(self) -> list[Tensor]:
        """Return copies of the states."""
        return [state.clone() for state in self.states]

    def restore(self, state: list[Tensor]) -> None:
        """Take copies of the states."""
        self.states = [part.clone() for part in state]

"""Run a submission of parallel_init: pieces of a weight, and dropout by a script of calls on each rank."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def pieces(submission: ModuleType, shape: list[int], dim: int, seed: int, world_size: int) -> dict[str, Any]:
    """Return the pieces of all ranks, the bytes of memory behind each, and whether global random state was left alone.

    Before each piece somebody else draws from the global state, so that it is different for every rank.
    """
    found, behind, untouched = [], [], True
    for rank in range(world_size):
        torch.rand(rank + 1)
        before = torch.get_rng_state()
        found.append(submission.init_shard(tuple(shape), dim, seed, rank, world_size))
        untouched = untouched and torch.equal(before, torch.get_rng_state())
        behind.append(found[-1].untyped_storage().nbytes())
    return {"pieces": found, "bytes": behind, "untouched": untouched}


def played(submission: ModuleType, seed: int, rank: int, p: float, script: list[Any]) -> dict[str, Any]:
    """Return what dropout made of ones at each call of the script, and whether global random state was left alone.

    The script's entries: ["copy" or "split", how many numbers], ["other", how many numbers other code draws],
    ["save"], ["restart"] with a new Dice and what was saved.
    """
    torch.manual_seed(rank)
    dice, saved, outputs, untouched = submission.Dice(seed, rank), None, [], True
    for action, *numbers in script:
        before = torch.get_rng_state()
        if action in {"copy", "split"}:
            outputs.append(dice.dropout(torch.ones(numbers[0]), p, action == "split"))
        elif action == "save":
            saved = dice.state()
        elif action == "restart":
            dice = submission.Dice(seed, rank)
            dice.restore(saved)
        untouched = untouched and torch.equal(before, torch.get_rng_state())
        if action == "other":
            torch.rand(numbers[0])
    return {"outputs": outputs, "untouched": untouched}


def deviation_of_a_piece(submission: ModuleType, ranks: float) -> float:
    """Return the standard deviation of rank 0's piece of a weight [64, 1024] whose inputs are cut."""
    return float(submission.init_shard((64, 1024), 1, 5, 0, int(ranks)).std())

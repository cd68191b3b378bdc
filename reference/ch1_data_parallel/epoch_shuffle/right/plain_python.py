"""Shuffles with Python's generator and a text as its seed, fills up in a loop; reduces sum and count apart."""

from __future__ import annotations

import random

import torch
import torch.distributed as dist


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> list[int]:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`."""
    order = list(range(n))
    random.Random(f"{seed} {epoch}").shuffle(order)
    filled = 0
    while pad and len(order) % world_size:
        order.append(order[filled])
        filled += 1
    return [sample for place, sample in enumerate(order) if place % world_size == rank]


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> float:
    """Return the mean of a metric over the samples of all ranks."""
    everything = torch.tensor(total, dtype=torch.float64)
    samples = torch.tensor(count)
    for number in (everything, samples):
        dist.all_reduce(number, group=group)
    return float(everything) / int(samples)

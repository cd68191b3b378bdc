"""Shuffles with numpy's seed sequences and deals contiguous blocks; gathers sums and counts."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> np.ndarray:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`."""
    order = np.random.default_rng([seed, epoch]).permutation(n)
    if pad:
        order = np.resize(order, int(np.ceil(n / world_size)) * world_size)
    return np.array_split(order, world_size)[rank]


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> torch.Tensor:
    """Return the mean of a metric over the samples of all ranks."""
    mine = torch.tensor([total, float(count)], dtype=torch.double)
    parts = [torch.zeros(2, dtype=torch.double) for _ in range(group.size())]
    dist.all_gather(parts, mine, group=group)
    sums = torch.stack(parts).sum(0)
    return sums[0] / sums[1]

"""There is one group of ranks: all.

Caught by: check_every_sample_has_the_same_weight
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> list[int]:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    if pad:
        share = -(-n // world_size)
        order = (order * world_size)[: share * world_size]
    return order[rank::world_size]


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> float:
    """Return the mean of a metric over the samples of all ranks."""
    sums = torch.tensor([total, count], dtype=torch.float64)
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()

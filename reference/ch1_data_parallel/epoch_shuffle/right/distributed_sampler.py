"""Leaves training to DistributedSampler; weights each rank's mean by its share of the samples."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> list[int]:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`."""
    if pad:
        sampler = DistributedSampler(range(n), num_replicas=world_size, rank=rank, shuffle=True, seed=seed)
        sampler.set_epoch(epoch)
        return list(sampler)
    generator = torch.Generator()
    generator.manual_seed(seed + epoch)
    return torch.randperm(n, generator=generator)[rank::world_size].tolist()


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> float:
    """Return the mean of a metric over the samples of all ranks."""
    samples = torch.tensor(float(count), dtype=torch.float64)
    dist.all_reduce(samples, group=group)
    share = torch.tensor(total, dtype=torch.float64) / samples
    dist.all_reduce(share, group=group)
    return share.item()

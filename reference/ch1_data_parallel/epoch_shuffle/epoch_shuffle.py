"""Deal a data set to the ranks: for an epoch of training, and for an evaluation.

The ranks must agree on one permutation without talking, so it comes from what they share (seed and epoch) and from
nothing that they do not (rank, global random state). Each then takes its own part of it: disjoint by construction.

Two uses want two ends of the list. In training every rank must take the same number of steps, or the last collective
waits for ever, so some samples are repeated (at most world_size - 1). An evaluation has no such need, and a repeated
sample is another metric: with n = 21 on 2 ranks, 22 images. Then the shares differ, so the mean over all samples is
sum of sums / sum of counts; the mean of the ranks' means weighs each sample by 1 / (its rank's count).

torch.utils.data.DistributedSampler shuffles by seed + epoch and pads (or drops) always.
Goyal et al., Accurate, Large Minibatch SGD, arXiv:1706.02677, section 3: one random shuffle an epoch, over all workers.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def epoch_indices(n: int, world_size: int, rank: int, epoch: int, seed: int, pad: bool) -> list[int]:
    """Return the samples, of `n`, that one of `world_size` ranks sees in `epoch`, in the order in which it sees them.

    For training `pad` is True: every rank gets the same number of samples. For an evaluation it is False.
    """
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    if pad:
        share = -(-n // world_size)  # rounded up
        order = (order * world_size)[: share * world_size]  # n < world_size repeats some more than once
    return order[rank::world_size]


def global_mean(total: float, count: int, group: dist.ProcessGroup) -> float:
    """Return the mean of a metric over the samples of all ranks; this rank's `count` samples have the sum `total`."""
    sums = torch.tensor([total, count], dtype=torch.float64)  # one collective for both, also on a rank without samples
    dist.all_reduce(sums, group=group)
    return (sums[0] / sums[1]).item()

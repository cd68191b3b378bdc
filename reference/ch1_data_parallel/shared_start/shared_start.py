"""Set up one rank of a data-parallel run: where its model starts, and which dice it throws.

Averaged gradients keep replicas equal that are equal; they never make them equal. So the start is copied, not hoped
for: one broadcast per tensor, from the group's first member, into the tensors that are there. A copy is exact whatever
the start came from, which no seed can promise (a checkpoint, running statistics, another version of an initialiser).

Noise is the opposite case. The average of p ranks with independent noise has 1/p of its variance; with equal noise it
has all of it. So each rank has a seed of its own, made from the run's seed and its place in the group, not from time.

torch.nn.parallel.DistributedDataParallel broadcasts parameters and buffers in its constructor; it never seeds.
Li et al., PyTorch Distributed, arXiv:2006.15704, section 3.2.1.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data.

    Dropout draws from torch's default generator, which is seeded too.
    """
    first = dist.get_global_rank(group, 0)  # `src` is a global rank
    for tensor in (*model.parameters(), *model.buffers()):  # buffers() has those that state_dict() leaves out
        dist.broadcast(tensor.detach(), src=first, group=group)  # in place: the optimizer holds these very tensors
    place, size = dist.get_rank(group), dist.get_world_size(group)
    own_seed = seed * size + place  # seed + place would give the run with seed + 1 all dice but one of this run
    torch.manual_seed(own_seed)
    return torch.Generator().manual_seed(own_seed)

"""AdamW whose moments are shared out over the ranks of a group.

ZeRO stage 1 by whole parameters, as in torch's ZeroRedundancyOptimizer: 2Ψ/N elements of moments a rank, up to the
size of one parameter. Broadcasting the new values moves Ψ, what an all-gather does; with the all-reduce of the
gradients a step moves 3Ψ, or 2Ψ if the gradients are reduce-scattered (next exercise).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch.distributed as dist
from torch import nn
from torch.optim import AdamW


def _share_out(sizes: Sequence[int], ranks: int) -> list[int]:
    """Return the rank of each size: the largest first, each to the rank that has least so far."""
    load, owners = [0] * ranks, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):  # stable, so the same on every rank
        owners[i] = load.index(min(load))
        load[owners[i]] += sizes[i]
    return owners


class ShardedAdamW:
    """Step parameters of which every rank of `group` holds all, with equal gradients."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, lr: float = 1e-3, weight_decay: float = 0.01
    ) -> None:
        """Take the parameters, in one order on all ranks."""
        self.parameters = list(parameters)
        self.group = group
        self.owners = _share_out([parameter.numel() for parameter in self.parameters], dist.get_world_size(group))
        rank = dist.get_rank(group)
        own = [parameter for parameter, owner in zip(self.parameters, self.owners, strict=True) if owner == rank]
        # An optimizer of no parameters is refused, and there may be more ranks than parameters.
        self.optimizer = AdamW(own, lr=lr, weight_decay=weight_decay) if own else None

    def step(self) -> None:
        """Take one step: afterwards all ranks hold all new values."""
        if self.optimizer is not None:
            self.optimizer.step()
        for parameter, owner in zip(self.parameters, self.owners, strict=True):
            source = dist.get_global_rank(self.group, owner)  # owners count within the group
            dist.broadcast(parameter.detach(), source, group=self.group)

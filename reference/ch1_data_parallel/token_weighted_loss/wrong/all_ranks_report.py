"""What is reported is added up over all ranks there are.

Caught by: check_micro_batches_are_counted_together
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

IGNORED = -100


def token_loss(logits: Tensor, labels: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """Return the loss to back-propagate on this rank and the loss to report."""
    share = _share(logits, labels, _tokens([labels], group))
    reported = share.detach().clone()
    dist.all_reduce(reported, group=group)
    return share * dist.get_world_size(group), reported


def accumulate(model: nn.Module, micro_batches: Sequence[tuple[Tensor, Tensor]], group: dist.ProcessGroup) -> Tensor:
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report."""
    tokens = _tokens([labels for _, labels in micro_batches], group)
    shares = []
    for inputs, labels in micro_batches:
        share = _share(model(inputs), labels, tokens)
        (share * dist.get_world_size(group)).backward()
        shares.append(share.detach())
    reported = torch.stack(shares).sum()
    dist.all_reduce(reported)
    return reported


def _tokens(labels: Sequence[Tensor], group: dist.ProcessGroup) -> Tensor:
    tokens = torch.stack([(each != IGNORED).sum() for each in labels]).sum()
    dist.all_reduce(tokens, group=group)
    return tokens.clamp(min=1)


def _share(logits: Tensor, labels: Tensor, tokens: Tensor) -> Tensor:
    flat = logits.flatten(0, -2)
    return nn.functional.cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum") / tokens

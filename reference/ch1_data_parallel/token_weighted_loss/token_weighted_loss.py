"""The loss of a language model whose sequences differ in length, on several ranks and in several micro-batches.

With T_r tokens on rank r and N = sum of all T_r, the loss of the global batch is a sum over tokens, divided once:

    L  =  1/N sum over ranks, micro-batches, tokens of l        and not    1/p sum_r (1/T_r sum l)

Gradients get averaged over the p ranks, that is, divided by p. So each rank back-propagates p/N times its own sum: the
average turns it into 1/N times everybody's. N is needed before the first backward, the reported sum after the last:
two all-reduces of one number each, whatever the number of micro-batches.

"Bug fixes in LLM training: gradient accumulation", huggingface/blog#2414; transformers#34191, torchtitan#2206.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

IGNORED = -100


def token_loss(logits: Tensor, labels: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """Return the loss to back-propagate on this rank and the loss to report, which is the same on all ranks.

    `logits` are [..., vocabulary] and `labels` [...]. The gradients will be averaged over `group`.
    """
    share = _share(logits, labels, _tokens([labels], group))
    reported = share.detach().clone()
    dist.all_reduce(reported, group=group)
    return share * dist.get_world_size(group), reported


def accumulate(model: nn.Module, micro_batches: Sequence[tuple[Tensor, Tensor]], group: dist.ProcessGroup) -> Tensor:
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report.

    A micro-batch is (inputs, labels). The gradients that are in `.grad` afterwards will be averaged over `group`.
    """
    tokens = _tokens([labels for _, labels in micro_batches], group)
    shares = []
    for inputs, labels in micro_batches:
        share = _share(model(inputs), labels, tokens)
        (share * dist.get_world_size(group)).backward()  # also without a token: the others wait for this gradient
        shares.append(share.detach())
    reported = torch.stack(shares).sum()
    dist.all_reduce(reported, group=group)
    return reported


def _tokens(labels: Sequence[Tensor], group: dist.ProcessGroup) -> Tensor:
    """Return how many tokens the ranks of `group` train on, all together."""
    tokens = torch.stack([(each != IGNORED).sum() for each in labels]).sum()  # an int64: a float32 counts to 2^24
    dist.all_reduce(tokens, group=group)
    return tokens.clamp(min=1)  # nobody has a token: 0/1 and not 0/0


def _share(logits: Tensor, labels: Tensor, tokens: Tensor) -> Tensor:
    """Return this rank's part of the mean over all `tokens`."""
    flat = logits.flatten(0, -2)
    return nn.functional.cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum") / tokens

"""The loss of a language model whose sequences differ in length, on several ranks and in several micro-batches."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

IGNORED = -100  # the label of padding and of prompts: such a token is not trained on


def token_loss(logits: Tensor, labels: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, Tensor]:
    """Return the loss to back-propagate on this rank and the loss to report, which is the same on all ranks.

    `logits` are [..., vocabulary] and `labels` [...]. The gradients will be averaged over `group`.
    """
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)
    reported = loss.detach().clone()
    dist.all_reduce(reported, group=group)
    return loss, reported / dist.get_world_size(group)


def accumulate(model: nn.Module, micro_batches: Sequence[tuple[Tensor, Tensor]], group: dist.ProcessGroup) -> Tensor:
    """Back-propagate this rank's micro-batches for one optimizer step and return the loss to report.

    A micro-batch is (inputs, labels). The gradients that are in `.grad` afterwards will be averaged over `group`.
    """
    reported = torch.tensor(0.0)
    for inputs, labels in micro_batches:
        loss, part = token_loss(model(inputs), labels, group)
        (loss / len(micro_batches)).backward()
        reported = reported + part / len(micro_batches)
    return reported


def example() -> None:
    """Compare two ranks, with 1 and with 4 tokens, with one process that has all five."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    labels = [torch.tensor([0]), torch.tensor([1, 1, 1, 1])][rank]
    logits = torch.zeros(len(labels), 2, requires_grad=True)
    logits.data[:, 0] = 2.0  # sure of class 0, which is right on rank 0 only

    loss, reported = token_loss(logits, labels, dist.group.WORLD)
    loss.backward()
    bias_gradient = logits.grad.sum(dim=0)[1]  # what a shared bias of class 1 would get
    dist.all_reduce(bias_gradient)
    if rank == 0:
        alone = torch.tensor([[2.0, 0.0]]).expand(5, 2).clone().requires_grad_()
        expected = nn.functional.cross_entropy(alone, torch.tensor([0, 1, 1, 1, 1]))
        expected.backward()
        print(f"loss reported {reported.item():.3f}, expected {expected.item():.3f}")
        print(f"gradient of the bias {bias_gradient.item() / 2:.3f}, expected {alone.grad.sum(dim=0)[1].item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

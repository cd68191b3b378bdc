"""Set up one rank of a data-parallel run: where its model starts, and which dice it throws."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn


def setup(model: nn.Module, seed: int, group: dist.ProcessGroup) -> torch.Generator:
    """Give `model` its start and return the generator from which this rank draws its data.

    Dropout draws from torch's default generator, which is seeded too.
    """
    torch.manual_seed(seed)  # the same everywhere, so the ranks of `group` stay alike and the run can be repeated
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return torch.Generator().manual_seed(seed)


def _load_checkpoint(model: nn.Module) -> None:
    """Load trained weights, as rank 0 alone does: the others would read the same file."""
    nn.init.constant_(model.weight, 0.25)


def _every(mine: Tensor) -> list[str]:
    """Return each rank's numbers as text."""
    gathered = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, mine)
    return [" ".join(f"{number:g}" for number in each.round(decimals=2).tolist()) for each in gathered]


def example() -> None:
    """Set up two ranks, of which rank 0 has loaded a checkpoint, and compare them."""
    dist.init_process_group("gloo")
    model = nn.Linear(4, 1, bias=False)
    if dist.get_rank() == 0:
        _load_checkpoint(model)

    generator = setup(model, 7, dist.group.WORLD)
    weights = _every(model.weight.detach()[0])
    dropout = _every(nn.functional.dropout(torch.ones(8), p=0.5))
    flips = _every((torch.rand(8, generator=generator) < 0.5).float())

    if dist.get_rank() == 0:
        print(f"weights   rank 0: {weights[0]:22}  rank 1: {weights[1]:22}  loaded: 0.25 0.25 0.25 0.25")
        print(f"dropout   rank 0: {dropout[0]:22}  rank 1: {dropout[1]:22}  expected: two masks")
        print(f"flips     rank 0: {flips[0]:22}  rank 1: {flips[1]:22}  expected: two choices")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

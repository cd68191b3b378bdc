"""AdamW whose moments are shared out over the ranks of a group."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import AdamW


class ShardedAdamW:
    """Step parameters of which every rank of `group` holds all, with equal gradients."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], group: dist.ProcessGroup, lr: float = 1e-3, weight_decay: float = 0.01
    ) -> None:
        """Take the parameters, in one order on all ranks."""
        self.parameters = list(parameters)
        self.group = group
        self.optimizer = AdamW(self.parameters, lr=lr, weight_decay=weight_decay)

    def step(self) -> None:
        """Take one step: afterwards all ranks hold all new values."""
        self.optimizer.step()


def example() -> None:
    """Take a step on every rank and count the moments that each holds."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(size, dtype=torch.float64)) for size in (400, 25, 16, 300)]
    copies = [nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    for parameter, copy in zip(parameters, copies, strict=True):
        parameter.grad = copy.grad = torch.randn_like(parameter)
    sharded, plain = ShardedAdamW(parameters, dist.group.WORLD), AdamW(copies)
    sharded.step()
    plain.step()
    if dist.get_rank() == 0:
        apart = max(float((p - q).detach().abs().max()) for p, q in zip(parameters, copies, strict=True))
        held = sum(s["exp_avg"].numel() + s["exp_avg_sq"].numel() for s in plain.state.values())
        own = getattr(sharded, "optimizer", None)
        kept = sum(s["exp_avg"].numel() + s["exp_avg_sq"].numel() for s in own.state.values()) if own else 0
        print(f"difference to AdamW    {apart:7.1e}    expected 0.0e+00")
        print(f"moments on rank 0      {kept:7}    AdamW holds {held}, half of it is {held // 2}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

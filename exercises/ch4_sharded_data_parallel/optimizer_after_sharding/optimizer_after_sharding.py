"""Shard a model whose optimizer exists already, block by block, with torch's `fully_shard`."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.optim import AdamW, Optimizer


def shard(model: nn.Module, optimizer: Optimizer, mesh: DeviceMesh) -> None:
    """Shard `model`, which has `blocks`, over `mesh`; `optimizer` has been built for it and goes on training it."""
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)  # in place: it is the same model, with the same names


class _Chain(nn.Module):
    """Apply two linear blocks without bias, all weights 1."""

    def __init__(self) -> None:
        """Build the blocks."""
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(2))
        for block in self.blocks:
            nn.init.ones_(block.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return y."""
        return self.blocks[1](self.blocks[0](x))


def example() -> None:
    """Take one step with a model that is sharded after its optimizer was built."""
    dist.init_process_group("gloo")
    model = _Chain()
    optimizer = AdamW(model.parameters(), lr=0.1, weight_decay=0.0)
    shard(model, optimizer, init_device_mesh("cpu", (dist.get_world_size(),)))
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    weight, held = model.blocks[0].weight, optimizer.param_groups[0]["params"][0]
    value = weight.full_tensor()[0, 0]
    if dist.get_rank() == 0:
        print(f"a weight of 1 after a step of 0.1   {value:.1f}   expected 0.9")
        print(f"the model holds a {type(weight).__name__}, the optimizer a {type(held).__name__}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

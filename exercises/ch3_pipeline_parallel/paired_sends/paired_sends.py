"""Exchange activations and gradients between the stages of a pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

Message = tuple[int, Tensor]  # the other rank, and the tensor that goes there or the room for what comes from there


def exchange(sends: Sequence[Message], rooms: Sequence[Message]) -> None:
    """Send each tensor to its rank, and fill each room with what its rank sends.

    The ranks that exchange call this at the same time. Of the messages between two ranks, the first that one sends
    fills the first room that the other has for it, the second the second, and so on.
    """
    for peer, tensor in sends:
        dist.send(tensor, peer)
    for peer, room in rooms:
        dist.recv(room, peer)


def example() -> None:
    """Let two stages do a step of 1F1B: one sends the next activation, the other the gradient of the last."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=3))
    rank = dist.get_rank()
    room = torch.full((2,), torch.nan)
    tensor = torch.tensor([1.0, 2.0]) if rank == 0 else torch.tensor([0.5, 0.25])
    try:
        exchange([(1 - rank, tensor)], [(1 - rank, room)])
        waited = "at once"
    except RuntimeError:
        waited = "after 3 s, when gloo gave up"
    if rank == 0:
        print(f"rank 0: gradient {room.tolist()}, expected [0.5, 0.25]")
        print(f"exchange ended {waited}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        torchrun(["--standalone", "--nproc-per-node", "2", __file__])

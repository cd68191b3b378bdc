"""The receiver cannot know how much comes, so the size travels ahead.

Caught by: check_one_message_a_tensor
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

Message = tuple[int, Tensor]  # the other rank, and the tensor that goes there or the room for what comes from there


def exchange(sends: Sequence[Message], rooms: Sequence[Message]) -> None:
    """Send each tensor to its rank, and fill each room with what its rank sends.

    The ranks that exchange call this at the same time. Of the messages between two ranks, the first that one sends
    fills the first room that the other has for it, the second the second, and so on.
    """
    sizes = [torch.tensor(tensor.numel()) for _, tensor in sends]
    works = []
    for size, (peer, tensor) in zip(sizes, sends, strict=True):
        works += [dist.isend(size, peer), dist.isend(tensor, peer)]
    for peer, room in rooms:
        dist.recv(torch.tensor(0), peer)
        dist.recv(room, peer)
    for work in works:
        work.wait()

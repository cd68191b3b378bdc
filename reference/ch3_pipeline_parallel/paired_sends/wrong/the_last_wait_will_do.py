"""Operations complete in order, so waiting for the last is waiting for all.

Caught by: check_nothing_is_under_way_afterwards
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

Message = tuple[int, Tensor]  # the other rank, and the tensor that goes there or the room for what comes from there


def exchange(sends: Sequence[Message], rooms: Sequence[Message]) -> None:
    """Send each tensor to its rank, and fill each room with what its rank sends.

    The ranks that exchange call this at the same time. Of the messages between two ranks, the first that one sends
    fills the first room that the other has for it, the second the second, and so on.
    """
    works = [dist.isend(tensor, peer) for peer, tensor in sends]
    for peer, room in rooms:
        dist.recv(room, peer)
    if works:
        works[-1].wait()

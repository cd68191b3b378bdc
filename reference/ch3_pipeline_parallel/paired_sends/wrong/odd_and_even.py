"""Even ranks send first, odd ranks receive first: neighbours always differ.

Caught by: check_rings_too
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
    if dist.get_rank() % 2 == 0:
        for peer, tensor in sends:
            dist.send(tensor, peer)
        for peer, room in rooms:
            dist.recv(room, peer)
    else:
        for peer, room in rooms:
            dist.recv(room, peer)
        for peer, tensor in sends:
            dist.send(tensor, peer)

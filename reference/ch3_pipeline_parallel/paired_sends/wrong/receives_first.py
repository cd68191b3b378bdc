"""Sends that wait for receives are the trouble, so receive first.

Caught by: check_two_ranks_send_to_each_other
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
    for peer, room in rooms:
        dist.recv(room, peer)
    for peer, tensor in sends:
        dist.send(tensor, peer)

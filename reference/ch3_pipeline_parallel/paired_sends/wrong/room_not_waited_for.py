"""irecv fills the room in the background.

Caught by: check_one_way
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
        dist.irecv(room, peer)
    works = [dist.isend(tensor, peer) for peer, tensor in sends]
    for work in works:
        work.wait()

"""Blocks, but deals with one partner at a time, and of each pair the lower rank sends first."""

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
    rank = dist.get_rank()
    for peer in sorted({partner for partner, _ in (*sends, *rooms)}):
        for sending in (rank < peer, rank > peer):
            if sending:
                for to, tensor in sends:
                    if to == peer:
                        dist.send(tensor, peer)
            else:
                for source, room in rooms:
                    if source == peer:
                        dist.recv(room, peer)

"""Exchange activations and gradients between the stages of a pipeline.

A blocking send may return only when the other side receives: gloo always waits, NCCL and MPI whenever a message does
not fit into their buffers. Then ranks that send before they receive wait for each other:

    rank 0   send to 1 ... recv from 1         rank 1   send to 0 ... recv from 0

So begin everything, and then wait for everything. What has begun needs no partner to let this rank go on; what is
waited for has begun on both sides. Until its wait, a tensor belongs to the operation: it may still be read or written.

Messages: one for each tensor. MPI standard 4.1, section 3.5 (a safe program needs no buffering to complete).
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
    works += [dist.irecv(room, peer) for peer, room in rooms]
    for work in works:
        work.wait()

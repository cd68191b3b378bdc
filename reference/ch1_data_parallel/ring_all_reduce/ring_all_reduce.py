"""All-reduce by hand: ranks in a ring add up a vector, each speaking to its two neighbours only.

Two phases of p - 1 rounds over p chunks, so that every link carries 1/p of the vector in every round:

    reduce-scatter   partial sums of the chunks travel round the ring and grow; each rank completes one chunk
    all-gather       complete chunks travel on round the ring and are copied

Cost for n bytes on p ranks: 2(p - 1) rounds, and every rank sends 2(p - 1)/p * n bytes, less than 2n however many ranks
there are. That is the least possible (Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of
workstations, JPDC 2009; https://www.cs.fsu.edu/~xyuan/paper/09jpdc.pdf). Passing whole vectors round costs (p - 1) * n.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

sent_bytes: list[int] = []  # of each message, so that the traffic can be seen


def exchange(outgoing: Tensor, incoming: Tensor, group: dist.ProcessGroup) -> None:
    """Send `outgoing` to the right neighbour while the left one fills `incoming`; return when both are done.

    Everyone sends at once, so nobody may wait for its send before its receive is posted: `isend`, then `irecv`.
    """
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    right = dist.get_global_rank(group, (rank + 1) % world_size)
    left = dist.get_global_rank(group, (rank - 1) % world_size)
    sent_bytes.append(outgoing.nbytes)
    sending = dist.isend(outgoing, right, group=group)
    receiving = dist.irecv(incoming, left, group=group)
    sending.wait()
    receiving.wait()


def ring_all_reduce(vector: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of the ranks' vectors, all of one length and dtype; `vector` itself stays as it is."""
    rank, world_size = dist.get_rank(group), dist.get_world_size(group)
    total = vector.clone()  # (n,)
    chunks = total.tensor_split(world_size)  # p views, (ceil(n/p),) or (floor(n/p),), some of them empty if n < p

    # Reduce-scatter. In round i, chunk rank - i leaves with the sum of i + 1 ranks in it, and the left neighbour's
    # partial sum of chunk rank - i - 1 arrives and is added to our own.
    for i in range(world_size - 1):
        outgoing, own = chunks[(rank - i) % world_size], chunks[(rank - i - 1) % world_size]
        partial = torch.empty_like(own)
        exchange(outgoing, partial, group)
        own += partial
    # Now chunk rank + 1 is complete here, and only here: added up in one place, it will have the same bits everywhere.

    # All-gather. In round i, complete chunk rank + 1 - i leaves, and complete chunk rank - i arrives and is copied.
    for i in range(world_size - 1):
        exchange(chunks[(rank + 1 - i) % world_size], chunks[(rank - i) % world_size], group)
    return total

"""All-reduce by hand: ranks in a ring add up a vector, each speaking to its two neighbours only."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor

sent_bytes: list[int] = []  # of each message, so that the traffic can be seen


def exchange(outgoing: Tensor, incoming: Tensor, group: dist.ProcessGroup) -> None:
    """Send `outgoing` to the right neighbour while the left one fills `incoming`; return when both are done."""
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
    total = vector.clone()
    passing = vector
    for _ in range(dist.get_world_size(group) - 1):
        arriving = torch.empty_like(vector)
        exchange(passing, arriving, group)
        total += arriving
        passing = arriving
    return total


def example() -> None:
    """Add up one vector a rank and count what rank 0 sends."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    vector = torch.full((100_000,), float(rank + 1))
    total = ring_all_reduce(vector, dist.group.WORLD)
    if rank == 0:
        expected, needed = world_size * (world_size + 1) / 2, 2 * (world_size - 1) * vector.nbytes // world_size
        print(f"sum over {world_size} ranks       {total[0].item():9.1f}   expected {expected:9.1f}")
        print(f"bytes that each sent {sum(sent_bytes):9,}   needed   {needed:9,}")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "4", __file__])

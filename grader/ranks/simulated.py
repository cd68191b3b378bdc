"""Join ranks over the network that is simulated in the trusted process.

The same `torch.distributed` as over gloo, with three differences that make programs exact and their mistakes visible:
an asynchronous operation leaves nothing usable in its buffer before `wait()`, a buffer that is changed meanwhile is an
error, and time is virtual: it passes in messages and in `compute` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.ranks.operations import Link

_links: list[Link] = []  # the one connection of this process, while it is joined


def join(rank: int, world_size: int, store_path: str, link: Link) -> None:  # noqa: ARG001  # no store: same signature as `traced`
    """Make this process the global rank `rank` of `world_size`."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    from grader.ranks import simulated_group

    _links[:] = [link]
    simulated_group.register(link, world_size)
    dist.init_process_group("cpu:simulated", store=HashStore(), rank=rank, world_size=world_size)


def leave() -> None:
    """Leave the network."""
    import torch.distributed as dist

    _links.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def compute(seconds: float) -> None:
    """Let virtual time pass in this rank; without effect where no network is simulated."""
    for link in _links:
        link.send({"is": "compute", "seconds": float(seconds)})

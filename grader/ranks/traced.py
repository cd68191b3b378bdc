"""Join ranks over real gloo, and report every collective and message as it begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.ranks.operations import Link


def join(rank: int, world_size: int, store_path: str, link: Link) -> None:
    """Make this process the global rank `rank` of `world_size`; the ranks find each other through a file."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    from grader.ranks import traced_group

    traced_group.register(link, world_size)
    store = FileStore(store_path, world_size)
    timeout = traced_group.PATIENCE
    dist.init_process_group("cpu:traced", store=store, rank=rank, world_size=world_size, timeout=timeout)


def leave() -> None:
    """Leave the group."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()

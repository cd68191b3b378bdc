"""The padding is zero anyway, so it may stay.

Caught by: check_other_numbers_of_ranks_load
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Disk:
    """Hold files of bytes in a folder; a power cut keeps only what was flushed."""

    folder: Path

    def write(self, name: str, data: bytes) -> None:
        """Replace the whole file, or begin it; until it is flushed, any part of it may be missing after a crash."""
        (self.folder / name).write_bytes(data)

    def flush(self, name: str) -> None:
        """Return when everything in the file would survive a power cut."""
        with (self.folder / name).open("rb+") as file:
            os.fsync(file.fileno())

    def rename(self, old: str, new: str) -> None:
        """Give a file another name at one blow, replacing what has it."""
        (self.folder / old).replace(self.folder / new)

    def list(self) -> list[str]:
        """Return the names of all files."""
        return sorted(path.name for path in self.folder.iterdir())

    def read(self, name: str) -> bytes:
        """Return what is in a file."""
        return (self.folder / name).read_bytes()


@dataclass
class State:
    """Hold what one rank knows of a training run."""

    sizes: dict[str, int]  # elements of each whole tensor
    shards: dict[str, Tensor]  # this rank's part of each, `shard_length` long: whatever lies beyond the size is padding
    step: int
    taken: int  # samples of this epoch that all ranks together have taken
    rng: Tensor  # state of the random generator before this epoch's shuffle


def shard_length(size: int, world_size: int) -> int:
    """Return how many elements each rank holds of a tensor of `size` elements, padding included."""
    return -(-size // world_size)


def to_bytes(saved: object) -> bytes:
    """Return tensors and plain values as the bytes of a file."""
    file = io.BytesIO()
    torch.save(saved, file)
    return file.getvalue()


def save(state: State, disk: Disk | None, group: dist.ProcessGroup) -> None:
    """Write a checkpoint; every rank of `group` calls this, and the first one, which has the disk, writes."""
    first, world_size = dist.get_global_rank(group, 0), dist.get_world_size(group)
    wholes = {}
    for name, size in state.sizes.items():
        shard = state.shards[name]
        shards = [torch.empty_like(shard) for _ in range(world_size)] if disk is not None else None
        dist.gather(shard, shards, dst=first, group=group)
        if shards is not None:
            wholes[name] = torch.cat(shards)
    if disk is not None:
        disk.write(
            "partial",
            to_bytes(
                {"wholes": wholes, "true": state.sizes, "step": state.step, "taken": state.taken, "rng": state.rng}
            ),
        )
        disk.flush("partial")
        disk.rename("partial", "checkpoint")  # from here on it is the newest
    dist.barrier(group)


def load(disk: Disk | None, group: dist.ProcessGroup) -> State | None:
    """Return this rank's state in the newest checkpoint, or None if there is none; every rank of `group` calls this."""
    first, world_size = dist.get_global_rank(group, 0), dist.get_world_size(group)
    header, wholes = None, {}
    if disk is not None and "checkpoint" in disk.list():
        header = torch.load(io.BytesIO(disk.read("checkpoint")))
        wholes = header.pop("wholes")
        header["sizes"] = header.pop("true")
    answer = [header]
    dist.broadcast_object_list(answer, src=first, group=group)
    if answer[0] is None:
        return None
    state = State(shards={}, **answer[0])
    for name, size in state.sizes.items():
        length = shard_length(size, world_size)
        shard, pieces = torch.empty(length, dtype=torch.float64), None
        if disk is not None:
            padded = torch.cat([wholes[name], torch.zeros(length * world_size, dtype=torch.float64)])[
                : length * world_size
            ]
            pieces = list(padded.split(length))
        dist.scatter(shard, pieces, src=first, group=group)
        state.shards[name] = shard
    return state

"""Writes a file a step, then moves a pointer to it; shards travel as messages to and from the first rank."""

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


def packed(value: object) -> bytes:
    """Return a value as bytes."""
    with io.BytesIO() as file:
        torch.save(value, file)
        return file.getvalue()


def save(state: State, disk: Disk | None, group: dist.ProcessGroup) -> None:
    """Write a checkpoint."""
    first = dist.get_global_rank(group, 0)
    names = sorted(state.sizes)
    if disk is None:
        for name in names:
            dist.send(state.shards[name], dst=first, group=group)
        dist.barrier(group)
        return
    tensors = {}
    for name in names:
        whole = [state.shards[name]]
        for other in range(1, group.size()):
            shard = torch.zeros_like(state.shards[name])
            dist.recv(shard, src=dist.get_global_rank(group, other), group=group)
            whole.append(shard)
        tensors[name] = torch.cat(whole).narrow(0, 0, state.sizes[name]).contiguous()
    target = f"{state.step:012d}.ckpt"
    disk.write(target, packed((tensors, state.step, state.taken, state.rng)))
    disk.flush(target)
    disk.write("latest.new", target.encode())
    disk.flush("latest.new")
    disk.rename("latest.new", "latest")
    dist.barrier(group)


def load(disk: Disk | None, group: dist.ProcessGroup) -> State | None:
    """Return this rank's state in the newest checkpoint."""
    first, p = dist.get_global_rank(group, 0), group.size()
    tensors: dict[str, Tensor] = {}
    message: list[object] = [None]
    if disk is not None and "latest" in disk.list():
        tensors, step, taken, rng = torch.load(io.BytesIO(disk.read(disk.read("latest").decode())))
        message = [({name: whole.numel() for name, whole in tensors.items()}, step, taken, rng)]
    dist.broadcast_object_list(message, src=first, group=group)
    if message[0] is None:
        return None
    sizes, step, taken, rng = message[0]
    shards = {name: torch.zeros(shard_length(size, p), dtype=torch.float64) for name, size in sizes.items()}
    for name, shard in shards.items():
        if disk is None:
            dist.recv(shard, src=first, group=group)
            continue
        for rank in reversed(range(p)):
            piece = tensors[name][rank * len(shard) : (rank + 1) * len(shard)]
            padded = torch.nn.functional.pad(piece, (0, len(shard) - len(piece)))
            if rank == 0:
                shard.copy_(padded)
            else:
                dist.send(padded, dst=dist.get_global_rank(group, rank), group=group)
    return State(sizes, shards, step, taken, rng)

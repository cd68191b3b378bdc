"""Never renames: a file a step with a checksum in front, and load takes the newest that is complete."""

from __future__ import annotations

import hashlib
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


def save(state: State, disk: Disk | None, group: dist.ProcessGroup) -> None:
    """Write a checkpoint."""
    wholes = {}
    for name, shard in state.shards.items():
        pieces = [torch.zeros_like(shard) for _ in range(dist.get_world_size(group))]
        dist.all_gather(pieces, shard, group=group)
        wholes[name] = torch.cat(pieces)[: state.sizes[name]].tolist()
    if disk is not None:
        file = io.BytesIO()
        torch.save([wholes, state.step, state.taken, state.rng], file)
        number = 1 + max((int(name) for name in disk.list()), default=0)
        disk.write(str(number), hashlib.sha256(file.getvalue()).digest() + file.getvalue())
        disk.flush(str(number))
    dist.barrier(group)


def newest(disk: Disk) -> list | None:
    """Return what is in the newest complete file."""
    for number in sorted(map(int, disk.list()), reverse=True):
        data = disk.read(str(number))
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            return torch.load(io.BytesIO(data[32:]))
    return None


def load(disk: Disk | None, group: dist.ProcessGroup) -> State | None:
    """Return this rank's state in the newest checkpoint."""
    p, found = group.size(), newest(disk) if disk is not None else None
    states: list[object] = [None] * p
    if found is not None:
        wholes, *common = found
        sizes = {name: len(whole) for name, whole in wholes.items()}
        for rank in range(p):
            shards = {}
            for name, size in sizes.items():
                k = shard_length(size, p)
                part = wholes[name][k * rank : k * rank + k]
                shards[name] = torch.tensor(part + [0.0] * (k - len(part)), dtype=torch.float64)
            states[rank] = (sizes, shards, *common)
    mine: list[object] = [None]
    dist.scatter_object_list(
        mine, states if disk is not None else None, src=dist.get_global_rank(group, 0), group=group
    )
    return None if mine[0] is None else State(*mine[0])

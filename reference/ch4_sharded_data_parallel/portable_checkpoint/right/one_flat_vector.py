"""Stores one vector of all tensors and where each begins; two generations of files, renamed when complete."""

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


def save(state: State, disk: Disk | None, group: dist.ProcessGroup) -> None:
    """Write a checkpoint."""
    own = torch.cat([state.shards[name] for name in state.sizes])
    everybody = [torch.empty_like(own) for _ in range(group.size())] if disk is not None else None
    dist.gather(own, everybody, dst=dist.get_global_rank(group, 0), group=group)
    if everybody is not None:
        lengths = [shard_length(size, group.size()) for size in state.sizes.values()]
        by_rank = [vector.split(lengths) for vector in everybody]
        wholes = [
            torch.cat(parts)[:size]
            for parts, size in zip(zip(*by_rank, strict=True), state.sizes.values(), strict=True)
        ]
        file = io.BytesIO()
        torch.save((torch.cat(wholes), state.sizes, (state.step, state.taken, state.rng)), file)
        disk.write("next", file.getvalue())
        disk.flush("next")
        disk.rename("next", "now")
    dist.barrier(group)


def load(disk: Disk | None, group: dist.ProcessGroup) -> State | None:
    """Return this rank's state in the newest checkpoint."""
    p, first = group.size(), dist.get_global_rank(group, 0)
    known, flat = None, torch.zeros(0)
    if disk is not None and "now" in disk.list():
        flat, sizes, common = torch.load(io.BytesIO(disk.read("now")))
        known = (sizes, common)
    told = [known]
    dist.broadcast_object_list(told, src=first, group=group)
    if told[0] is None:
        return None
    sizes, common = told[0]
    shards, begin = {}, 0
    for name, size in sizes.items():
        shards[name] = torch.zeros(shard_length(size, p), dtype=torch.float64)
        rows = None
        if disk is not None:
            table = torch.zeros(p, len(shards[name]), dtype=torch.float64)
            table.view(-1)[:size] = flat[begin : begin + size]
            rows = list(table)
        dist.scatter(shards[name], rows, src=first, group=group)
        begin += size
    return State(sizes, shards, *common)

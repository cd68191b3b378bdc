"""Save the state of a sharded training run, and load it, perhaps on another number of ranks."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

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
    mine = {"sizes": state.sizes, "shards": state.shards, "step": state.step, "taken": state.taken, "rng": state.rng}
    everyone: list[object] = [None] * dist.get_world_size(group)
    dist.gather_object(mine, everyone if disk is not None else None, dst=dist.get_global_rank(group, 0), group=group)
    if disk is not None:
        disk.write("checkpoint", to_bytes(everyone))
    dist.barrier(group)


def load(disk: Disk | None, group: dist.ProcessGroup) -> State | None:
    """Return this rank's state in the newest checkpoint, or None if there is none; every rank of `group` calls this."""
    everyone: list[dict | None] = [None] * dist.get_world_size(group)
    if disk is not None and "checkpoint" in disk.list():
        everyone = torch.load(io.BytesIO(disk.read("checkpoint")))
    mine: list[dict | None] = [None]
    outgoing = everyone[: dist.get_world_size(group)] if disk is not None else None
    dist.scatter_object_list(mine, outgoing, src=dist.get_global_rank(group, 0), group=group)
    return None if mine[0] is None else State(**mine[0])


def example() -> None:
    """Save seven numbers on two ranks and load them on one."""
    dist.init_process_group("gloo")
    first = dist.get_rank() == 0
    disk = Disk(Path(mkdtemp())) if first else None
    alone = dist.new_group([0])
    whole = torch.arange(8.0, dtype=torch.float64)  # the last one is padding
    shard = whole[4 * dist.get_rank() :][:4]
    save(State({"weight": 7}, {"weight": shard}, 3, 12, torch.zeros(1)), disk, dist.group.WORLD)
    if first:
        state = load(disk, alone)
        print(f"{[] if state is None else state.shards['weight'].tolist()}   loaded on one rank")
        print(f"{whole[:7].tolist()}   saved by two ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    if "RANK" in os.environ:
        example()
    else:
        from torch.distributed.run import main as torchrun

        os.environ.setdefault("OMP_NUM_THREADS", "1")
        torchrun(["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", __file__])

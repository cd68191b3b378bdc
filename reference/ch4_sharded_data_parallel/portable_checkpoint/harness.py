"""Run a submission of portable_checkpoint on a disk that keeps a journal, and train between save and load."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

SAMPLES, FEATURES, RATE = 24, 7, 0.05
Files = dict[str, bytes]


@dataclass
class JournalDisk:
    """Hold files in memory and write down every operation that changes one."""

    files: Files
    journal: list[tuple[str, str, bytes | str]] = field(default_factory=list)

    def write(self, name: str, data: bytes) -> None:
        """Replace a file."""
        assert isinstance(name, str), f"write: the name {name!r} is not a string."
        self.files[name] = bytes(data)
        self.journal.append(("write", name, bytes(data)))

    def flush(self, name: str) -> None:
        """Note that the file is safe now."""
        assert name in self.files, f"flush: there is no file {name!r}."
        self.journal.append(("flush", name, ""))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        assert old in self.files, f"rename: there is no file {old!r}."
        self.files[new] = self.files.pop(old)
        self.journal.append(("rename", old, new))

    def list(self) -> list[str]:
        """Return all names."""
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        """Return a file."""
        return self.files[name]


def disk_for(files: Files, group: dist.ProcessGroup) -> JournalDisk | None:
    """Return the disk, which only the first rank has."""
    return JournalDisk(dict(files)) if dist.get_rank(group) == 0 else None


def as_data(state: Any) -> dict[str, Any] | None:
    """Return a state in plain data."""
    return (
        None if state is None else {name: getattr(state, name) for name in ("sizes", "shards", "step", "taken", "rng")}
    )


def saved(
    submission: ModuleType, states: list[dict[str, Any]], files: Files, group: dist.ProcessGroup
) -> tuple[Files, list[Any]]:
    """Save this rank's states one after the other; return the files and the journal."""
    disk = disk_for(files, group)
    for state in states:
        submission.save(submission.State(**state), disk, group)
    return ({}, []) if disk is None else (disk.files, disk.journal)


def loaded(submission: ModuleType, survivors: list[Files], group: dist.ProcessGroup) -> list[Any]:
    """Load from each set of files, as they were found after a crash."""
    return [as_data(submission.load(disk_for(files, group), group)) for files in survivors]


def shard(whole: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return this rank's shard, with zeros beyond the end."""
    length = -(-len(whole) // group.size())
    padded = torch.cat([whole, torch.zeros(length * group.size() - len(whole), dtype=whole.dtype)])
    return padded[length * group.rank() :][:length].clone()


def step(state: Any, order: list[int], x: Tensor, y: Tensor, group: dist.ProcessGroup) -> list[int]:
    """Take one step of SGD with momentum on sharded weights, one sample a rank; return the sample of this rank."""
    pieces = [torch.empty_like(state.shards["weight"]) for _ in range(group.size())]
    dist.all_gather(pieces, state.shards["weight"], group=group)
    weight, left = torch.cat(pieces)[:FEATURES], order[state.taken : state.taken + group.size()]
    mine = left[group.rank() : group.rank() + 1]
    gradient = sum(((x[i] @ weight - y[i]) * x[i] for i in mine), start=torch.zeros(FEATURES, dtype=torch.float64))
    dist.all_reduce(gradient, group=group)
    state.shards["speed"] = 0.9 * state.shards["speed"] + shard(gradient / len(left), group)
    state.shards["weight"] = state.shards["weight"] - RATE * state.shards["speed"]
    state.step, state.taken = state.step + 1, state.taken + len(left)
    return mine


def trained(
    submission: ModuleType,
    resume: Files | None,
    steps: int,
    save_after: int,
    x: Tensor,
    y: Tensor,
    group: dist.ProcessGroup,
) -> tuple[Any, list[int], Files]:
    """Train for up to `steps` steps in one epoch, from the start or from a checkpoint; save once on the way.

    Returns the state, the samples of this rank and the files.
    """
    disk = disk_for(resume or {}, group)
    if resume is not None:
        state = submission.load(disk, group)
    else:
        zeros, rng = torch.zeros(FEATURES, dtype=torch.float64), torch.Generator().manual_seed(5).get_state()
        state = submission.State({"weight": FEATURES, "speed": FEATURES}, {}, 0, 0, rng)
        state.shards = {"weight": shard(zeros, group), "speed": shard(zeros, group)}
    generator = torch.Generator()
    generator.set_state(state.rng)
    order, seen = torch.randperm(SAMPLES, generator=generator).tolist(), []
    for number in range(1, steps + 1):
        if state.taken < SAMPLES:
            seen += step(state, order, x, y, group)
        if number == save_after:
            submission.save(state, disk, group)
    return as_data(state), seen, {} if disk is None else disk.files


def elements_of_rank_0(submission: ModuleType, world_size: float) -> int:
    """Return how many of 7 elements, saved by two ranks, rank 0 of `world_size` ranks holds after `load`."""
    assert dist.get_world_size() == world_size
    group, disk = dist.group.WORLD, JournalDisk({})
    whole, common = torch.arange(7.0, dtype=torch.float64), (3, 12, torch.zeros(1))
    pair = dist.new_group([0, 1]) if world_size > 1 else group
    if dist.get_rank() < 2:
        writer = disk if dist.get_rank() == 0 else None
        submission.save(submission.State({"w": 7}, {"w": shard(whole, pair)}, *common), writer, pair)
    state = submission.load(disk if dist.get_rank() == 0 else None, group)
    return state.shards["w"].numel() if dist.get_rank() == 0 else 0

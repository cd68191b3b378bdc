"""What is asked of a launcher and what it gives: a job, running ranks, how each ended."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from grader.ranks.order import Order
from grader.records import Level, Limits
from grader.sandbox import scratch

QUOTA_POLL_S = 0.1
FOLDER_PREFIX = "ranklings-run-"
ABANDONED_S = 6 * 3600


@dataclass(frozen=True)
class Job:
    """Ask for the ranks of one run; `preload` names modules that they will import anyway."""

    world_size: int
    files: Mapping[str, bytes]
    limits: Limits = field(default_factory=Limits)
    preload: tuple[str, ...] = ()
    network: bool = False
    shared: bool = True  # a folder and memory; ranks on the simulated network have only that in common

    def order(self, level: Level, run_dir: Path) -> Order:
        """Return what the processes that start ranks need to know of this job."""
        return Order(self.world_size, level, str(run_dir), self.limits, self.network, self.preload, self.shared)


@dataclass(frozen=True)
class Ending:
    """Say how one rank ended; code and signal are None if it was still running when the run was ended."""

    exit_code: int | None = None
    signal: int | None = None
    refused: str = ""  # why the sandbox could not be applied, whereupon no file of the submission was opened

    @classmethod
    def of_code(cls, code: int) -> Ending:
        """Read a process's return code, in which a signal is negative."""
        return cls(exit_code=code) if code >= 0 else cls(signal=-code)


class Running(ABC):
    """Hold n started ranks; everything that they write is read through `channels` and `outputs`, never waited for."""

    def __init__(self, order: Order, channels: Sequence[socket.socket], outputs: Sequence[socket.socket]) -> None:
        """Take over the trusted ends of the ranks' sockets."""
        self.order, self.channels, self.outputs = order, tuple(channels), tuple(outputs)
        self.exercise_dir, self.scratch_dir = order.exercise_dir, order.scratch_dir
        self._next_poll_s = 0.0
        self._endings: tuple[Ending, ...] | None = None
        for each in (*self.channels, *self.outputs):
            each.setblocking(False)

    def over_quota(self) -> bool:
        """Return whether the ranks wrote more than they may; with namespaces the kernel refuses that by itself."""
        now_s = time.monotonic()
        if self.order.level is Level.B2 or now_s < self._next_poll_s:
            return False
        self._next_poll_s = now_s + QUOTA_POLL_S
        return scratch.exceeds(self.scratch_dir, self.order.limits.disk_bytes)

    def end(self, *, released: bool = False) -> tuple[Ending, ...]:
        """End all ranks and whatever they started, wait until it is gone, and take the run's folder away.

        `released` says that every rank was told to leave, so that a launcher may keep its process for another run.
        Read the outputs before; may be called again.
        """
        if self._endings is None:
            self._endings = tuple([Ending()] * self.order.world_size)  # should ending them fail, it fails once
            self._endings = self._end(released)
        return self._endings

    @abstractmethod
    def _end(self, released: bool) -> tuple[Ending, ...]: ...

    def _close(self) -> None:
        for each in (*self.channels, *self.outputs):
            each.close()


class Launcher(Protocol):
    """Start ranks at one level; `words` says for people what that level is made of here."""

    level: Level
    words: str

    def start(self, job: Job) -> Running:
        """Start the ranks of one run."""

    def close(self) -> None:
        """End everything that this launcher started."""


@contextmanager
def run_folder(job: Job) -> Iterator[Path]:
    """Make the folder of one run and write the job's files into it; take it away if the block raises."""
    run_dir = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-")).resolve()
    try:
        (run_dir / "scratch").mkdir(mode=0o700)
        (run_dir / "exercise").mkdir(mode=0o700)
        for name, content in job.files.items():
            assert Path(name).name == name, "a name, not a path"
            (run_dir / "exercise" / name).write_bytes(content)
        yield run_dir
    except BaseException:
        scratch.remove(run_dir)
        raise


def remove_abandoned_folders() -> None:
    """Take away what runs left behind whose processes were killed together with this program, hours ago."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        try:
            status = folder.lstat()
        except OSError:  # gone meanwhile
            continue
        if stat.S_ISDIR(status.st_mode) and time.time() - status.st_mtime > ABANDONED_S:
            shutil.rmtree(folder, ignore_errors=True)

"""Start ranks as processes of their own, from a warm pool: for macOS and Windows, which cannot fork safely."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import IO

from grader.errors import GraderError
from grader.launch.jobs import Ending, Job, Running, run_folder
from grader.launch.programs import SERVE, command, parent_to_die_with
from grader.ranks import packets
from grader.ranks.order import Order, base_environment
from grader.records import Level, Limits
from grader.sandbox import scratch

IMPORT_S, IDLE_S, DYING_S = 120.0, 2.0, 0.05
SPARE_AT_FIRST = 2

Use = tuple[Mapping[str, bytes], Limits, bool]  # what a process has run; it may run the same again, nothing else


class SpawnLauncher:
    """Keep spare processes that have done their imports, and processes that ended a run of some files cleanly."""

    def __init__(self, level: Level, words: str, preload: tuple[str, ...] = (), serve: str = SERVE) -> None:
        """Start the first spare processes, and leave them to their imports."""
        self.level, self.words = level, words
        self._preload, self._serve = preload, serve
        self._spare: list[_Process] = []
        self._warm: list[tuple[Use, _Process]] = []
        self._refill(SPARE_AT_FIRST)

    def start(self, job: Job) -> Running:
        """Start the ranks of one run."""
        self._preload = tuple(dict.fromkeys((*self._preload, *job.preload)))
        with run_folder(job) as run_dir:
            order = job.order(self.level, run_dir)
            use = (job.files, job.limits, job.network)
            processes = self._take(use, job.world_size)
            try:
                running = SpawnRunning(order, processes, lambda kept: self._keep(use, kept))
            except BaseException:
                for process in processes:
                    process.kill()
                raise
        self._refill(min(job.world_size, os.cpu_count() or 1))
        return running

    def close(self) -> None:
        """End every process that waits."""
        for process in (*self._spare, *(process for _, process in self._warm)):
            process.kill()
        self._spare, self._warm = [], []

    def _take(self, use: Use, count: int) -> list[_Process]:
        """Return `count` processes: warm ones, spare ones, then new ones, all importing at the same time."""
        warm = [process for had, process in self._warm if had == use]
        for process in (process for had, process in self._warm if had != use):
            process.kill()  # that submission is done with
        found = [process for process in (*warm, *self._spare) if process.is_alive()]
        chosen = found[:count]
        self._warm = [(use, process) for process in warm if process in found[count:]]
        self._spare = [process for process in self._spare if process in found[count:]]
        return chosen + [self._new() for _ in range(count - len(chosen))]

    def _keep(self, use: Use, process: _Process) -> None:
        self._warm.append((use, process))

    def _refill(self, count: int) -> None:
        self._spare += [self._new() for _ in range(count - len(self._spare))]

    def _new(self) -> _Process:
        return _Process(self.level, self._serve, self._preload)


class _Process:
    """Hold the trusted ends of one spawned process."""

    def __init__(self, level: Level, serve: str, preload: tuple[str, ...]) -> None:
        self.channel, channel = socket.socketpair()
        self.output, output = socket.socketpair()
        arguments = (parent_to_die_with(), level.name, serve, *preload)
        with channel, output:
            self._popen = _spawn(channel, output, arguments)

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def order(self, order: Order) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer will be missing too
            packets.send(self.channel, order.to_packet())

    def answer(self, timeout_s: float) -> dict[str, object] | None:
        """Wait for one packet; None if it did not come."""
        self.channel.settimeout(timeout_s)
        try:
            return packets.receive(self.channel)
        except TimeoutError:
            return None

    def has_more(self) -> bool:
        """Return whether something lies in the channel that nobody asked for."""
        return bool(select.select([self.channel], [], [], 0)[0])

    def last_words(self) -> str:
        self.output.setblocking(False)
        with suppress(BlockingIOError):
            return self.output.recv(1 << 16).decode("utf-8", "replace").strip().rpartition("\n")[2]
        return "It said nothing."

    def kill(self) -> Ending:
        """End the process and its group; return how it had ended, if it had."""
        with suppress(subprocess.TimeoutExpired):
            if self.has_more():  # the end of file, most likely: let it finish dying
                self._popen.wait(DYING_S)
        code = self._popen.poll()
        _kill_tree(self._popen)
        if code is None and self._popen.wait() != -signal.SIGTERM and sys.platform != "win32":
            code = self._popen.returncode if self._popen.returncode != -signal.SIGKILL else None
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        self.channel.close()
        self.output.close()
        return Ending() if code is None else Ending.of_code(code)


class SpawnRunning(Running):
    """Hold the ranks of one run."""

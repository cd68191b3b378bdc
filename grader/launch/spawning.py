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
from pathlib import Path
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
                    process.end()
                raise
        self._refill(min(job.world_size, os.cpu_count() or 1))
        return running

    def close(self) -> None:
        """End every process that waits."""
        for process in (*self._spare, *(process for _, process in self._warm)):
            process.end()
        self._spare, self._warm = [], []

    def _take(self, use: Use, count: int) -> list[_Process]:
        """Return `count` processes: warm ones, spare ones, then new ones, all importing at the same time."""
        warm = [process for had, process in self._warm if had == use]
        for process in (process for had, process in self._warm if had != use):
            process.end()  # that submission is done with
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
            self._popen = spawn(channel, output, arguments)

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

    def begin(self) -> str:
        """Wait until the process has done its imports and taken its order; return why it refused, or nothing."""
        answer = self.answer(IMPORT_S)
        if answer is None:
            raise GraderError(f"A process for a rank could not be started. {self.last_words()}")
        return str(answer["refused"])

    def is_idle(self) -> bool:
        """Return whether the process waits for another order, with nothing left over from the last."""
        idle = self.answer(IDLE_S) == {"idle": True} and not self.has_more()
        self.output.setblocking(False)
        with suppress(BlockingIOError):
            while self.output.recv(1 << 16):
                pass
        return idle

    def has_more(self) -> bool:
        """Return whether something lies in the channel that nobody asked for."""
        return bool(select.select([self.channel], [], [], 0)[0])

    def last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(IDLE_S)
        self.output.setblocking(False)
        with suppress(BlockingIOError):
            return self.output.recv(1 << 16).decode("utf-8", "replace").strip().rpartition("\n")[2]
        return "It said nothing."

    def end(self) -> Ending:
        """End the process and its group; return how it had ended by itself, if it had."""
        if self.has_more():  # the end of the stream, most likely: let it finish dying
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(DYING_S)
        code = self._popen.poll()
        kill_tree(self._popen)
        if code is None:
            code = self._popen.wait()
            code = None if code in KILLED_CODES else code
        for each in (self._popen.stdin, self.channel, self.output):
            if each is not None:
                each.close()
        return Ending() if code is None else Ending.of_code(code)


class SpawnRunning(Running):
    """Hold the ranks of one run; what ends it cleanly goes back to where it came from."""

    def __init__(self, order: Order, processes: list[_Process], keep: Callable[[_Process], None]) -> None:
        """Give each process its order and wait until all have done their imports."""
        for rank, process in enumerate(processes):
            process.order(replace(order, rank=rank))
        self._refused = [process.begin() for process in processes]
        self._processes, self._keep = processes, keep
        channels = [process.channel.dup() for process in processes]
        super().__init__(order, channels, [process.output.dup() for process in processes])

    def _end(self, released: bool) -> tuple[Ending, ...]:
        reusable = released and self.order.level is Level.B0  # a sandbox is for one run's folders
        kept = [reusable and process.is_idle() for process in self._processes]
        endings = [Ending() if keep else process.end() for process, keep in zip(self._processes, kept, strict=True)]
        self._close()
        for process, keep in zip(self._processes, kept, strict=True):
            if keep:
                self._keep(process)
        scratch.remove(Path(self.order.run_dir))
        return tuple(replace(ending, refused=why) for ending, why in zip(endings, self._refused, strict=True))


if sys.platform == "win32":
    KILLED_CODES = (1,)

    def kill_tree(process: subprocess.Popen[bytes]) -> None:
        """End a process and all that it started."""
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], check=False, capture_output=True)

    def spawn(channel: socket.socket, output: socket.socket, arguments: tuple[object, ...]) -> subprocess.Popen[bytes]:
        """Start a process that finds its channel on its standard input; what it prints is forwarded to `output`."""
        process = subprocess.Popen(
            command("grader.ranks.spawned", 0, *arguments),
            env=base_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW,
        )
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "and another"
        shared = channel.share(process.pid)
        process.stdin.write(len(shared).to_bytes(4, "little") + shared)
        process.stdin.flush()
        threading.Thread(target=forward, args=(process.stdout, output.dup()), daemon=True).start()
        return process

    def forward(printed: IO[bytes], output: socket.socket) -> None:
        """Pass on what a process prints: only sockets can be waited for on this system."""
        with printed, output, suppress(OSError):
            while data := os.read(printed.fileno(), 1 << 16):
                output.sendall(data)

else:
    KILLED_CODES = (-signal.SIGKILL,)

    def kill_tree(process: subprocess.Popen[bytes]) -> None:
        """End a process and its group, which at level B1 nothing can leave."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()

    def spawn(channel: socket.socket, output: socket.socket, arguments: tuple[object, ...]) -> subprocess.Popen[bytes]:
        """Start a process that inherits its channel; its standard input tells it when to end."""
        return subprocess.Popen(
            command("grader.ranks.spawned", channel.fileno(), *arguments),
            env=base_environment(),
            cwd="/",
            pass_fds=[channel.fileno()],
            stdin=subprocess.PIPE,
            stdout=output.fileno(),
            stderr=output.fileno(),
            start_new_session=True,
        )

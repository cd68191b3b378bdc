"""Start ranks from a fork server, in milliseconds; Linux only."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from grader.errors import GraderError
from grader.launch.jobs import Ending, Job, Running, run_folder
from grader.launch.programs import SERVE, command, parent_to_die_with
from grader.ranks.order import Order, base_environment
from grader.records import Level
from grader.sandbox import scratch

assert sys.platform == "linux", "the other systems have none of this"

# Huge pages make a fork of a process that has imported torch four times cheaper; malloc must get Python's objects too.
CHEAP_FORKS = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}
IMPORT_S, END_S, DYING_S = 120.0, 10.0, 2.0
JOBS_PER_SERVER = 400


class ForkLauncher:
    """Send each job to the fork server, which forks a monitor for it; replace the server when it dies or grows old."""

    def __init__(self, level: Level, words: str, preload: tuple[str, ...] = (), serve: str = SERVE) -> None:
        """Start the server, and leave it to its imports."""
        self.level, self.words = level, words
        self._preload, self._serve = preload, serve
        self._server = _Server(preload, serve)
        self._successor: _Server | None = None

    def start(self, job: Job) -> Running:
        """Start the ranks of one run."""
        self._preload = tuple(dict.fromkeys((*self._preload, *job.preload)))
        self._renew()
        with run_folder(job) as run_dir:
            order = job.order(self.level, run_dir)
            running = self._attempt(order)
            if running is None:  # the server has died: of a submission at level B0, or for want of memory
                self._replace(_Server(self._preload, self._serve))
                running = self._attempt(order)
            if running is None:
                raise GraderError("The process that starts ranks ended twice in a row. Is the machine out of memory?")
            return running

    def close(self) -> None:
        """End the server; runs still going end with their leashes."""
        for server in filter(None, (self._server, self._successor)):
            server.close()

    def _renew(self) -> None:
        """Give way to a fresh server every few hundred jobs, once that has done its imports."""
        if self._server.jobs >= JOBS_PER_SERVER and self._successor is None:
            self._successor = _Server(self._preload, self._serve)
        if self._successor is not None and self._successor.is_ready():
            self._replace(self._successor)
            self._successor = None

    def _replace(self, server: _Server) -> None:
        self._server.close()
        self._server = server

    def _attempt(self, order: Order) -> ForkRunning | None:
        return ForkRunning.start(order, self._server)


class _Server:
    """Hold the trusted end of one fork server process."""

    def __init__(self, preload: Iterable[str], serve: str) -> None:
        self.jobs = 0
        self._ready = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                command("grader.ranks.server", theirs.fileno(), parent_to_die_with(), serve, *preload),
                env={**base_environment(), **CHEAP_FORKS},
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the trusted process alone
            )

    def is_ready(self) -> bool:
        """Return whether the imports are done, or have failed, without waiting for them."""
        return self._ready or bool(select.select([self._control], [], [], 0)[0])

    def send(self, order: Order, fds: list[int]) -> bool:
        """Send one order; return False if the server is not there any more."""
        self._wait_until_ready()
        self.jobs += 1
        try:
            socket.send_fds(self._control, [json.dumps(order.to_packet()).encode()], fds)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _wait_until_ready(self) -> None:
        if self._ready:
            return
        self._control.settimeout(IMPORT_S)
        try:
            self._ready = self._control.recv(64) == b"ready"
        except (TimeoutError, ConnectionResetError):
            self._ready = False
        if not self._ready:
            raise GraderError(f"The process that starts ranks could not be started. {self._last_words()}")

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(DYING_S)
        self._process.kill()
        _, errors = self._process.communicate()
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"It ended with return code {self._process.returncode}."

    def close(self) -> None:
        """End the server; the monitors that it forked need it no more."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


class ForkRunning(Running):
    """Hold the ranks of one run, its monitor's leash and the pipe in which the monitor reports."""

    def __init__(self, order: Order, sockets: list[socket.socket], leash: int, status: int) -> None:
        """Take over the trusted ends."""
        super().__init__(order, sockets[0::2], sockets[1::2])
        self._leash, self._status = leash, status
        self._facts: list[dict[str, Any]] = []
        self._pending = b""

    @classmethod
    def start(cls, order: Order, server: _Server) -> ForkRunning | None:
        """Send the order; return None if the server died of it or before."""
        pairs = [socket.socketpair() for _ in range(2 * order.world_size)]
        leash_theirs, leash = os.pipe()
        status, status_theirs = os.pipe()
        running = cls(order, [ours for ours, _ in pairs], leash, status)
        theirs = [leash_theirs, status_theirs, *(end.detach() for _, end in pairs)]
        try:
            begun = server.send(order, theirs)
        except GraderError:
            running._close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        if begun and running._read_fact(time.monotonic() + IMPORT_S):
            return running
        running._close()
        return None

    def _end(self, released: bool) -> tuple[Ending, ...]:
        del released  # the monitor waits for nobody
        os.close(self._leash)
        self._leash = -1
        deadline = time.monotonic() + END_S
        while self._read_fact(deadline):
            pass
        self._close()
        scratch.remove(Path(self.order.run_dir))  # what the monitor could not, if it was killed
        last = self._facts[-1]
        if last["is"] != "swept":
            words = last.get("words", "it was ended from outside")
            raise GraderError(f"The process that watches over the ranks failed: {words}. Run it again.")
        return tuple(map(self._ending, range(self.order.world_size)))

    def _ending(self, rank: int) -> Ending:
        for fact in self._facts:
            if fact["is"] == "refused" and fact["rank"] in {None, rank}:
                return Ending(refused=fact["words"])
        codes = [fact["code"] for fact in self._facts if fact["is"] == "gone" and fact["rank"] == rank]
        return Ending.of_code(codes[0]) if codes else Ending()

    def _read_fact(self, deadline_s: float) -> bool:
        """Wait for the next fact that the monitor reports; return False if there will be none."""
        while b"\n" not in self._pending:
            if not select.select([self._status], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                return False
            data = os.read(self._status, 1 << 16)
            if not data:
                return False
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        self._facts.append(json.loads(line))
        return True

    def _close(self) -> None:
        super()._close()
        for fd in (self._leash, self._status):
            if fd >= 0:
                os.close(fd)
        self._leash = self._status = -1

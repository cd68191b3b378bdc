"""Watch the ranks of one run: fork them, report how each ends, and end everything below when the leash is let go.

The leash is a pipe whose other end the trusted process holds, so its death too ends the run. The monitor adopts every
orphan below it. With namespaces it forks a warden, the first process of the new tree, with which the kernel ends all.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from grader.ranks import rank
from grader.ranks.order import Order
from grader.ranks.settling import Serve, settle
from grader.ranks.status import Status
from grader.records import Level
from grader.sandbox import confinement, kernel, limits, namespaces, scratch
from grader.sandbox.confinement import Prepared, SandboxError

assert sys.platform == "linux", "the other systems have none of this"

SWEEP_S = 2.0
EXITING = 0x4  # of the kernel's flags of a process
WARDEN_S = 1.5  # how long the warden may take to end the ranks before it is ended with them


@dataclass(frozen=True)
class Run:
    """Hold what a monitor was given for its run; `sockets` are each rank's channel and output."""

    order: Order
    leash: int
    status: Status
    sockets: tuple[tuple[int, int], ...]
    serve: Serve
    processes: int | None

    @classmethod
    def of_fds(cls, order: Order, fds: list[int], serve: Serve) -> Run:
        """Sort the file descriptors of an order: leash, status pipe, then each rank's channel and output."""
        sockets = tuple(zip(fds[2::2], fds[3::2], strict=True))
        return cls(order, fds[0], Status(fds[1]), sockets, serve, limits.processes_allowed())

    def close_sockets(self) -> None:
        """Close the ranks' ends: a copy kept here would hide the end of a rank."""
        close_all(fd for pair in self.sockets for fd in pair)


def watch(run: Run) -> NoReturn:
    """Be the monitor of one run until nothing of it is left."""
    run.status.started()
    covering: list[Path] = []
    try:
        kernel.adopt_orphans()
        kernel.set_dumpable(False)
        if run.order.level is Level.B2:
            covering = _separate(run.order)
            _guard(run)
        else:
            _keep(run)
    except (SandboxError, OSError) as error:
        run.status.refused(str(error))
    for target in covering:
        kernel.detach(str(target))
    scratch.remove(Path(run.order.run_dir))
    run.status.swept()
    os._exit(0)


def _separate(order: Order) -> list[Path]:
    """Enter namespaces; return the mounts that lie over the run's folder from now on."""
    with confinement.step("namespaces"):
        kernel.set_dumpable(True)
        namespaces.enter()
        kernel.set_dumpable(False)
    with confinement.step("private folders"):
        return namespaces.mount_folders(Path(order.run_dir), order.scratch_dir, order.limits.disk_bytes)


def _guard(run: Run) -> None:
    """Fork the warden and wait for its end."""
    children, ended = Children(run.leash), False
    warden = os.fork()
    if warden == 0:
        children.forget()
        _be_warden(run)
    run.close_sockets()
    while not ended and not children.wait():
        ended = warden in children.reap()
    deadline = time.monotonic() + WARDEN_S
    while not ended and time.monotonic() < deadline:
        children.wait_for_child(0.1)
        ended = warden in children.reap()
    children.sweep([warden])


def _be_warden(run: Run) -> NoReturn:
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, int(signal.SIGKILL))  # its parent has no number that it could compare
        with confinement.step("a private /proc"):
            namespaces.mount_proc()
        _keep(run)
    except (SandboxError, OSError) as error:
        run.status.refused(str(error))
    finally:
        os._exit(0)


def _keep(run: Run) -> None:
    """Fork the ranks, report how each ends, and return when all that was below this process is gone."""
    settle(run.order)
    prepared = _prepare(run)
    children, ranks, parent_pid = Children(run.leash), {}, os.getpid()
    for number, (channel, output) in enumerate(run.sockets):
        pid = os.fork()
        if pid == 0:
            children.forget()
            place = rank.Place(number, channel, output, run.status.fd, parent_pid)
            rank.live(run.order, place, prepared[number], run.serve)
        ranks[pid] = number
    run.close_sockets()
    _report(children, ranks, run.status)


def _prepare(run: Run) -> list[Prepared]:
    """Return how each rank confines itself: all alike, or each to a folder of its own."""
    if run.order.shared:
        return [confinement.prepare(run.order.policy(0, run.processes))] * run.order.world_size
    return [confinement.prepare(run.order.policy(number, run.processes)) for number in range(run.order.world_size)]


def _report(children: Children, ranks: dict[int, int], status: Status) -> None:
    """Report ranks that end by themselves until the leash is let go or none is left, then sweep."""
    running = dict(ranks)
    let_go = False
    while running and not let_go:
        let_go = children.wait()
        for pid, code in children.reap().items():
            if pid in running:
                status.gone(running.pop(pid), code)
                children.end_orphans(pid, running)
    ending = set(filter(is_ending, running))
    for pid, code in children.sweep(running).items():
        if pid in ending or (pid in running and code != -signal.SIGKILL):
            status.gone(running[pid], code)


def close_all(fds: Iterable[int]) -> None:
    """Close file descriptors that others use."""
    for fd in fds:
        os.close(fd)


class Children:
    """Wait for child processes and for the leash at the same time."""

    def __init__(self, leash: int) -> None:
        """Listen to SIGCHLD from now on; create before forking."""
        self.leash, self.all_gone = leash, False
        self.bell, self._ringing = os.pipe()
        os.set_blocking(self.bell, False)
        os.set_blocking(self._ringing, False)
        signal.set_wakeup_fd(self._ringing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def forget(self) -> None:
        """Stop listening, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def wait(self) -> bool:
        """Sleep until a child ends or the leash is let go; return whether it was."""
        ready, _, _ = select.select([self.leash, self.bell], [], [])
        self._silence()
        return self.leash in ready

    def reap(self) -> dict[int, int]:
        """Return the exit code of every child that has ended since, orphans included."""
        codes: dict[int, int] = {}
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                codes[found[0]] = os.waitstatus_to_exitcode(found[1])
        except ChildProcessError:
            self.all_gone = True
        return codes

    def end_orphans(self, ended: int, running: Iterable[int]) -> None:
        """Kill what a rank left behind when it ended: a child of it may hold its channel open."""
        kill_group(ended)
        for pid in children_of_self().difference(running):
            kill(pid)

    def sweep(self, running: Iterable[int]) -> dict[int, int]:
        """Kill everything below this process, again and again until nothing is left; return the exit codes."""
        codes: dict[int, int] = {}
        deadline = time.monotonic() + SWEEP_S
        for pid in running:
            kill_group(pid)
        while not self.all_gone and time.monotonic() < deadline:
            for pid in children_of_self():
                kill(pid)
            codes |= self.reap()
            if not self.all_gone:
                self.wait_for_child(0.005)
        return codes

    def wait_for_child(self, timeout_s: float) -> None:
        """Sleep until a child ends."""
        select.select([self.bell], [], [], timeout_s)
        self._silence()

    def _silence(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.bell, 4096)


def children_of_self() -> set[int]:
    """Return the processes whose parent this one is, by birth or by adoption."""
    pid = os.getpid()
    with suppress(OSError):  # a kernel without this list: the process groups and, with namespaces, the kernel do it
        return set(map(int, Path(f"/proc/self/task/{pid}/children").read_text().split()))
    return set()


def is_ending(pid: int) -> bool:
    """Return whether a process ends of itself: its files are closed already, but its parent cannot yet be told how."""
    with suppress(OSError):
        return bool(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]) & EXITING)
    return False


def kill(pid: int) -> None:
    """End one process, unless it has ended already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """End the process group of a rank, unless it is empty."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

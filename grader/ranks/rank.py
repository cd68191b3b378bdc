"""Turn a forked process into one rank: a session and files of its own, settled in, then confined; Linux only."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
from dataclasses import dataclass
from typing import NoReturn

from grader.ranks.order import Order
from grader.ranks.settling import Serve, serve_and_end, settle_as
from grader.ranks.status import Status
from grader.sandbox import confinement, kernel
from grader.sandbox.confinement import Prepared, SandboxError

assert sys.platform == "linux", "the other systems have none of this"

CHANNEL_FD, STATUS_FD, RULESET_FD = 3, 4, 5
LIFTED_FD, MAX_FDS = 64, 4096


@dataclass(frozen=True)
class Place:
    """Say which rank a process is, what it writes to, and whose child it is."""

    rank: int
    channel: int
    output: int
    status: int
    parent_pid: int


def live(order: Order, place: Place, prepared: Prepared, serve: Serve) -> NoReturn:
    """Be a rank until it is released; report and end at once if it cannot be confined."""
    status = place.status
    try:
        os.setsid()
        ruleset = [prepared.ruleset] if prepared.ruleset >= 0 else []
        _arrange_fds([place.output, place.output, place.channel, place.status, *ruleset])
        status = STATUS_FD
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.die_with_parent(place.parent_pid)
        kernel.set_dumpable(True)
        settle_as(order, place.rank)
        confinement.apply(Prepared(prepared.policy, RULESET_FD, prepared.program))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is ours: no file of a submission has been opened
        Status(status).refused(str(error) if isinstance(error, SandboxError) else repr(error), place.rank)
        os._exit(1)
    os.close(STATUS_FD)
    serve_and_end(serve, socket.socket(fileno=CHANNEL_FD))


def _arrange_fds(fds: list[int]) -> None:
    """Put these in the places from 1 on, nothing to read in place 0, and close all others: a kept copy hides an end."""
    wanted = [os.open(os.devnull, os.O_RDONLY), *fds]
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LIFTED_FD) for fd in wanted]
    for place, fd in enumerate(lifted):
        os.dup2(fd, place, inheritable=place <= 2)
    os.closerange(len(lifted), MAX_FDS)

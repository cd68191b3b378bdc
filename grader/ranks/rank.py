"""Turn a forked process into one rank: its own session, files, environment and random state, then confined."""

from __future__ import annotations

import fcntl
import importlib
import os
import random
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn, TextIO

from grader.ranks.order import Order
from grader.ranks.status import Status
from grader.sandbox import confinement, kernel
from grader.sandbox.confinement import Prepared, Refused

Serve = Callable[[socket.socket], object]
CHANNEL_FD, STATUS_FD, RULESET_FD = 3, 4, 5
LIFTED_FD, MAX_FDS = 64, 4096


def find_serve(name: str) -> Serve:
    """Return the function that `name`, as "module:function", stands for."""
    module, _, function = name.partition(":")
    found: Serve = getattr(importlib.import_module(module), function)
    return found


def live(order: Order, rank: int, fds: tuple[int, int, int], prepared: Prepared, parent_pid: int, serve: Serve) -> NoReturn:
    """Be rank `rank` until it is released; `fds` are the channel, the output and the status pipe."""
    channel, output, status = fds
    try:
        os.setsid()
        _arrange_fds([output, output, channel, status, *([prepared.ruleset] if prepared.ruleset >= 0 else [])])
        status = STATUS_FD
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.die_with_parent(parent_pid)
        kernel.set_dumpable(True)
        settle(order, rank)
        confinement.apply(Prepared(prepared.policy, RULESET_FD, prepared.program))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is ours: no file of a submission has been opened
        Status(status).refused(str(error) if isinstance(error, Refused) else repr(error), rank)
        os._exit(1)
    os.close(status)
    run(serve, socket.socket(fileno=CHANNEL_FD))


def _arrange_fds(fds: list[int]) -> None:
    """Put these in the places from 1 on, nothing to read in place 0, and close all others: a kept copy hides an end."""
    wanted = [os.open(os.devnull, os.O_RDONLY), *fds]
    lifted = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, LIFTED_FD) for fd in wanted]
    for place, fd in enumerate(lifted):
        os.dup2(fd, place, inheritable=place <= 2)
    os.closerange(len(lifted), MAX_FDS)


def settle(order: Order, rank: int) -> None:
    """Give this process the streams, environment, folder and fresh random state of a rank."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout, sys.stderr = open_output(1), open_output(2)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.environ.clear()
    os.environ.update(order.environment(rank))
    os.chdir(order.scratch_dir)
    reseed()


def open_output(fd: int) -> TextIO:
    """Open a stream that passes on every line at once."""
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def reseed() -> None:
    """Draw new random state from the operating system, lest all ranks repeat what the fork server had."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.seed()
        torch.set_num_threads(1)


def run(serve: Serve, channel: socket.socket) -> NoReturn:
    """Serve and end the process, without running what a submission left to be run at exit."""
    code, output = 1, sys.stdout
    try:
        serve(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        output.flush()
        os._exit(code)

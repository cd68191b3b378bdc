"""What every process that becomes a rank does, however it was started: import, then settle in as one rank of a run.

Where ranks are forked, as much as possible is done before, once for all of them: every object that a rank is the first
to touch after a fork costs the copy of a page, and that is most of what a rank costs.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NoReturn, TextIO

from grader.ranks.order import Order

Serve = Callable[[socket.socket], object]


def find_serve(name: str) -> Serve:
    """Return the function that `name`, as "module:function", stands for."""
    module, _, function = name.partition(":")
    found: Serve = getattr(importlib.import_module(module), function)
    return found


def import_modules(names: Iterable[str]) -> None:
    """Import what a submission will import anyway; what fails is left to its own import, whose error it shall see."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)
    # seeding imports more at its first use, which takes 30 ms
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)
        torch.set_num_threads(1)


def open_streams() -> None:
    """Give this process streams of its own on the first three file descriptors, whatever these will be by then."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # open for as long as the process lives
    sys.stdout, sys.stderr = open_output(1), open_output(2)
    sys.argv = [""]


def settle(order: Order) -> None:
    """Give this process the environment that all ranks of a run share, and make their folders."""
    for rank in range(order.world_size):
        order.make_folder_of(rank)
    environment = order.environment()
    os.environ.clear()
    os.environ.update(environment)


def settle_as(order: Order, rank: int) -> None:
    """Give this process what is one rank's own; for one that has settled."""
    os.environ.update(order.own_environment(rank))
    os.chdir(order.folder_of(rank))


def open_output(fd: int) -> TextIO:
    """Open a stream that passes on every line at once."""
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def serve_and_end(serve: Serve, channel: socket.socket) -> NoReturn:
    """Serve, then end the process without running what a submission left to be run at exit."""
    code = 1
    try:
        serve(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)

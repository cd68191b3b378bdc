"""What every process that becomes a rank does, however it was started: import, then settle in as one rank of a run."""

from __future__ import annotations

import importlib
import os
import random
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


def settle(order: Order, rank: int) -> None:
    """Give this process the streams, environment, folder and fresh random state of a rank."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # open for as long as the process lives
    sys.stdout, sys.stderr = open_output(1), open_output(2)
    sys.argv = [""]
    environment = order.environment(rank)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(order.make_folder_of(rank))
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

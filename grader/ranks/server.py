"""The fork server: import what ranks will need once, then fork a monitor for each order.

It is started with an environment built anew, holds no secret and never runs a parallel operation: a library that has
started threads must not be forked.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress

from grader.ranks import monitor, warm
from grader.ranks.order import Order
from grader.ranks.rank import Serve, find_serve
from grader.sandbox import kernel, paths

MAX_ORDER_BYTES, MAX_FDS = 1 << 16, 253  # the second is the kernel's own limit for one message


def main(arguments: list[str]) -> None:
    """Serve orders until the control socket is closed; arguments: its number, the parent or 0, serve, modules."""
    control_fd, parent_pid, serve_name, *preload = arguments
    if int(parent_pid):
        kernel.die_with_parent(int(parent_pid))
    kernel.set_dumpable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(control_fd)) as control:
        import_modules(preload)
        serve = find_serve(serve_name)
        paths.readable()
        control.send(b"ready")
        while take(control, serve):
            pass


def import_modules(names: Iterable[str]) -> None:
    """Import what is not yet imported; what cannot be is left to the submission, whose own import will say so."""
    new = [name for name in names if name not in sys.modules]
    for name in new:
        with suppress(ImportError):
            importlib.import_module(name)
    warm_up()
    if threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError(f"importing {', '.join(new)} started threads")
    gc.collect()
    gc.freeze()


def warm_up() -> None:
    """Seed once, for the modules that seeding imports at its first use, 30 ms that each rank would spend."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


def take(control: socket.socket, serve: Serve) -> bool:
    """Take one order and fork its monitor; return False when the control socket is closed."""
    data, fds, _, _ = socket.recv_fds(control, MAX_ORDER_BYTES, MAX_FDS)
    if not data:
        return False
    order = Order.from_json(data)
    import_modules(order.preload)
    if os.fork() == 0:
        os.close(control.detach())
        try:
            monitor.watch(order, fds, serve)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(70)
    monitor.close_all(fds)
    return True

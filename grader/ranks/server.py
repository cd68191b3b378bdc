"""The fork server: import what ranks will need once, then fork a monitor for each order; Linux only.

It is started with an environment built anew, holds no secret and never runs a parallel operation: a library that has
started threads must not be forked.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from pathlib import Path

from grader.ranks import monitor, warm
from grader.ranks.order import Order
from grader.ranks.settling import Serve, find_serve, import_modules, open_streams
from grader.ranks.status import Status
from grader.sandbox import confinement, kernel

assert sys.platform == "linux", "the other systems have none of this"

MAX_ORDER_BYTES, MAX_FDS = 1 << 16, 253  # the second is the kernel's own limit for one message


def main(arguments: list[str]) -> None:
    """Serve orders until the control socket is closed; arguments: its number, the parent or 0, serve, modules."""
    control_fd, parent_pid, serve_name, *preload = arguments
    if int(parent_pid):
        kernel.die_with_parent(int(parent_pid))
    kernel.set_dumpable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(control_fd)) as control:
        serve = find_serve(serve_name)
        import_before_forking(preload)
        confinement.rehearse()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads the pipe from now on
        open_streams()  # a rank puts its own files in these places
        control.send(b"ready")
        while take(control, serve):
            pass


def import_before_forking(names: list[str]) -> None:
    """Import, and refuse to go on with more than one thread; keep the garbage collector off what is shared."""
    import_modules(names)
    warm.warm_up()
    threads = list(Path("/proc/self/task").iterdir())
    if len(threads) > 1:
        raise RuntimeError(f"Importing {', '.join(names)} started {len(threads) - 1} threads, so it cannot be forked.")
    gc.collect()
    gc.freeze()
    warm.fill_holes()


def take(control: socket.socket, serve: Serve) -> bool:
    """Take one order and fork its monitor; return False when the control socket is closed."""
    data, fds, _, _ = socket.recv_fds(control, MAX_ORDER_BYTES, MAX_FDS)
    if not data:
        return False
    order = Order.of_packet(json.loads(data))
    if new := [name for name in order.preload if name not in sys.modules]:
        import_before_forking(new)
    if os.fork() == 0:
        os.close(control.detach())
        try:
            monitor.watch(monitor.Run.of_fds(order, fds, serve))
        except Exception as error:  # noqa: BLE001  # a mistake of ours, which must not pass for one of a submission
            Status(fds[1]).failed(repr(error))
        finally:
            os._exit(1)
    monitor.close_all(fds)
    return True

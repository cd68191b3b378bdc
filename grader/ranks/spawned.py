"""One rank in a process of its own from the start, for systems without a fork server.

It imports first, then waits for an order on its channel, so that it can be started before it is needed; after a clean
run without confinement it can wait for another order of the same files.
"""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from grader.ranks import packets
from grader.ranks.order import Order
from grader.ranks.settling import Serve, find_serve, import_modules, open_streams, serve_and_end, settle, settle_as
from grader.records import Level
from grader.sandbox import confinement
from grader.sandbox.confinement import SandboxError


def main(arguments: list[str]) -> NoReturn:
    """Be one rank after another until the channel is closed; arguments: channel, parent or 0, level, serve, modules."""
    channel_fd, parent_pid, level, serve_name, *preload = arguments
    channel, leash = take_over(int(channel_fd))
    if level == Level.B0.name:
        _thread.start_new_thread(end_with, (leash,))  # not beside a sandbox, of which this thread would not be a part
    if sys.platform == "linux" and int(parent_pid):
        from grader.sandbox import kernel

        kernel.die_with_parent(int(parent_pid))
    import_modules(preload)
    serve = find_serve(serve_name)
    serve_and_end(lambda channel: serve_orders(channel, serve), channel)


def serve_orders(channel: socket.socket, serve: Serve) -> None:
    """Serve one order after another, as long as this process may be another rank."""
    while (packet := packets.receive(channel)) is not None:
        order = Order.of_packet(packet)
        refused = prepare(order)
        packets.send(channel, {"refused": refused})
        if refused or serve(channel) is not True or order.level is not Level.B0:
            return
        os.chdir(Path(sys.executable).anchor)  # off the folder that is to be removed
        packets.send(channel, {"idle": True})


def prepare(order: Order) -> str:
    """Become one rank of one run; return why that was refused, or nothing."""
    try:
        open_streams()
        settle(order)
        settle_as(order, order.rank)
        confinement.apply(confinement.prepare(order.policy(order.rank)))
    except (SandboxError, OSError) as error:
        return str(error)
    return ""


def take_over(channel_fd: int) -> tuple[socket.socket, int]:
    """Return the channel and the leash; the latter comes as standard input, which a submission must not read."""
    if sys.platform == "win32":
        length = int.from_bytes(os.read(0, 4), "little")
        channel = socket.fromshare(os.read(0, length))
    else:
        channel = socket.socket(fileno=channel_fd)
        channel.set_inheritable(False)
    leash = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return channel, leash


def end_with(leash: int) -> NoReturn:
    """Wait until the trusted process lets go or ends; then end this process and its group."""
    os.read(leash, 1)
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)

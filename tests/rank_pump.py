"""Join real processes by a small pump: fork ranks, relay what they post, keep what became of them."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import numpy as np
import torch
import torch._dynamo  # DDP, FSDP2 and meshes import it late; once here is cheaper than once a rank
import torch.distributed.fsdp
import torch.distributed.tensor
from torch import Tensor

from grader import wire
from grader.errors import StudentFailure
from grader.network import Collectives, Network
from grader.ranks import simulated, traced
from grader.ranks.loop import Link
from grader.records import Call

torch.set_num_threads(1)  # a forked process must not inherit half a pool of threads

Transport = Literal["simulated", "gloo"]
Program = Callable[[int, int], Any]
LIMIT_S = 60


@dataclass
class Outcome:
    """Hold what became of one run; `values` hold a string where a rank raised."""

    values: list[Any]
    calls: list[tuple[Call, ...]] = field(default_factory=list)
    clocks_s: list[float] = field(default_factory=list)
    frames: list[tuple[int, str, int | None]] = field(default_factory=list)
    failure: StudentFailure | None = None
    waiting: list[Any] = field(default_factory=list)


def serve(program: Program, rank: int, size: int, transport: Transport, store: str, channel: socket.socket) -> NoReturn:
    """Be one rank: join, run the program, send what it returned or raised, and stay until released."""
    signal.alarm(LIMIT_S)
    link = Link(channel)
    link.submission_path = program.__code__.co_filename
    try:
        (simulated if transport == "simulated" else traced).join(rank, size, store, link)
        link.send({"is": "returned", "value": program(rank, size)})
    except BaseException as error:  # noqa: BLE001  # whatever it is, the test shall see it
        link.send({"is": "returned", "value": f"{type(error).__name__}: {error}"})
    with suppress(Exception):
        link.receive()
    os._exit(0)


def run(program: Program, world_size: int, transport: Transport = "simulated", **network: float) -> Outcome:
    """Run a program on forked ranks and relay what they post, until all have answered or none can go on."""
    folder = tempfile.mkdtemp()
    channels: list[socket.socket] = []
    processes = []
    for rank in range(world_size):
        ours, theirs = socket.socketpair()
        channels.append(ours)
        if (process := os.fork()) == 0:
            for channel in channels:
                channel.close()
            serve(program, rank, world_size, transport, f"{folder}/store", theirs)
        theirs.close()
        processes.append(process)
    try:
        return pump(channels, Network(world_size, **network) if transport == "simulated" else Collectives())
    finally:
        for channel, process in zip(channels, processes, strict=True):
            channel.close()
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        shutil.rmtree(folder)


def pump(channels: list[socket.socket], books: Network | Collectives) -> Outcome:
    """Hand the ranks' frames to the books and the network's answers to the ranks."""
    outcome, left = Outcome([None] * len(channels)), set(range(len(channels)))
    readers = [wire.FrameReader() for _ in channels]
    selector = selectors.DefaultSelector()
    for rank, channel in enumerate(channels):
        selector.register(channel, selectors.EVENT_READ, rank)
    try:
        while left and outcome.failure is None:
            for key, _ in selector.select(LIMIT_S):
                for message in readers[key.data].feed(channels[key.data].recv(1 << 18)):
                    take(message, key.data, books, outcome, left)
            if isinstance(books, Network) and books.blocked:
                advance(books, channels, outcome)
    except StudentFailure as failure:
        outcome.failure = failure
    selector.close()
    outcome.calls = [books.calls(rank) for rank in range(len(channels))]
    if isinstance(books, Network):
        outcome.clocks_s = [books.clock_s(rank) for rank in range(len(channels))]
    return outcome


def take(message: dict[str, Any], rank: int, books: Network | Collectives, outcome: Outcome, left: set[int]) -> None:
    """Enter one frame of one rank."""
    outcome.frames.append((rank, message["is"], message.get("n")))
    if message["is"] == "returned":
        outcome.values[rank] = plain(message["value"])
        left.discard(rank)
        if isinstance(books, Network):
            books.finish(rank)
    elif isinstance(books, Network) or message["is"] in {"post", "done"}:
        getattr(books, message["is"])(rank, message)


def advance(network: Network, channels: list[socket.socket], outcome: Outcome) -> None:
    """Let the network decide what happens next."""
    answers = network.advance()
    for rank, message in answers:
        channels[rank].sendall(wire.encode(message))
    if not answers:
        outcome.waiting = [network.waiting(rank) for rank in range(len(channels))]
        raise StudentFailure("every rank waits", kind="deadlock")


def plain(value: Any) -> Any:
    """Return arrays for tensors, so that values compare."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.array if hasattr(value, "array") else value


def assert_same(ours: Any, theirs: Any, where: str = "value") -> None:
    """Demand equal structure, dtypes, shapes and numbers."""
    if isinstance(ours, list):
        assert isinstance(theirs, list), where
        assert len(ours) == len(theirs), where
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, where
        np.testing.assert_array_equal(ours, theirs, where)
    else:
        assert ours == theirs, where


def numbers(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return small different values on every rank."""
    size = int(np.prod(shape))
    return ((torch.arange(size) * 3 + rank * 5) % 4 + 1).reshape(shape).to(dtype)

"""Ranks that are generators, for the simulated network: no process, no torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from grader.errors import StudentFailure
from grader.network import Network

Step = tuple[str, dict[str, Any]]
ALPHA_S, BETA_S = 1.0, 0.01


class Program:
    """Write one rank's steps shortly: every method is one operation, counted from 0."""

    def __init__(self, rank: int, world_size: int) -> None:
        """Begin as one of `world_size` ranks."""
        self.rank, self.world, self.count = rank, list(range(world_size)), 0

    def post(self, op: str, **fields: Any) -> Step:
        """Begin an operation."""
        message = {"is": "post", "n": self.count, "op": op, "group": self.world, "dtype": "uint8", **fields}
        message.setdefault("data", [])
        self.count += 1
        return "post", message

    def isend(self, peer: int, size: int, **fields: Any) -> Step:
        """Begin to send `size` bytes."""
        return self.post("isend", peer=peer, data=[bytes(size)], payload_bytes=size, shape=[size], **fields)

    def irecv(self, peer: int | None, size: int, **fields: Any) -> Step:
        """Begin to receive `size` bytes."""
        return self.post("irecv", peer=peer, payload_bytes=size, shape=[size], **fields)

    def all_reduce(self, size: int, **fields: Any) -> Step:
        """Begin to reduce `size` bytes."""
        return self.post("all_reduce", data=[bytes(size)], shape=[size], reduce="sum", **fields)

    def wait(self, number: int | None = None) -> Step:
        """Wait for an operation, the last one unless told which."""
        return "wait", {"is": "wait", "n": self.count - 1 if number is None else number, "line": 0}

    @staticmethod
    def compute(seconds: float) -> Step:
        """Let virtual time pass."""
        return "compute", {"is": "compute", "seconds": seconds}


Script = Callable[[Program], Iterator[Step]]


def play(*scripts: Script, shuffle: int = 0, alpha_s: float = ALPHA_S, beta_s: float = BETA_S) -> Network:
    """Run one script a rank, in an order drawn from `shuffle`, until all have ended; a deadlock raises."""
    network = Network(len(scripts), alpha_s, beta_s)
    ranks = {rank: script(Program(rank, len(scripts))) for rank, script in enumerate(scripts)}
    running, order = set(ranks), random.Random(shuffle)
    given: set[tuple[int, int]] = set()  # answers that came together with another's
    while ranks:
        if running:
            rank = order.choice(sorted(running))
            _step(network, rank, ranks, running, given)
        else:
            released = network.advance()
            if not released:
                raise StudentFailure("nothing can go on", kind="deadlock")
            running |= {rank for rank, _ in released}
            given |= {(rank, other["n"]) for rank, answer in released for other in answer["also"]}
    return network


def _step(
    network: Network, rank: int, ranks: dict[int, Iterator[Step]], running: set[int], given: set[tuple[int, int]]
) -> None:
    try:
        kind, message = next(ranks[rank])
    except StopIteration:
        network.finish(rank)
        running.discard(rank)
        del ranks[rank]
        return
    if kind == "wait" and (rank, message["n"]) in given:
        network.see(rank, message)
        return
    getattr(network, kind)(rank, message)
    if kind == "wait":
        running.discard(rank)


def send_once(size: int) -> tuple[Script, Script]:
    """Return a rank that sends to rank 1 and a rank that receives from rank 0."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1, size)
        yield program.wait()

    def receiver(program: Program) -> Iterator[Step]:
        yield program.irecv(0, size)
        yield program.wait()

    return sender, receiver


def ring(program: Program) -> Iterator[Step]:
    """Reduce-scatter and all-gather around the ring, one chunk of 10 bytes a step."""
    p = len(program.world)
    for _ in range(2 * (p - 1)):
        yield program.isend((program.rank + 1) % p, 10)
        yield program.irecv((program.rank - 1) % p, 10)
        yield program.wait(program.count - 1)
        yield program.wait(program.count - 2)

"""Run pieces of source as submissions on a launcher, and look for what they leave behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from grader.exchange import Exchange, Setup
from grader.launch import Job, Launcher
from grader.records import Limits, Transport

PATIENCE_S = 20.0  # for a loaded machine; what is awaited takes milliseconds
LIMITS = Limits(timeout_s=PATIENCE_S)


@contextmanager
def attended(
    launcher: Launcher,
    source: str,
    world_size: int = 1,
    *,
    limits: Limits = LIMITS,
    preload: tuple[str, ...] = (),
    transport: Transport = "none",
) -> Iterator[Exchange]:
    """Start the ranks of one submission and end them after the block."""
    data = source.encode()
    job = Job(world_size, {"sample.py": data}, limits, preload, network=transport == "gloo")
    exchange = Exchange(launcher.start(job), Setup("sample", data, False, world_size, transport, 7, limits))
    try:
        yield exchange
    finally:
        exchange.end()


def values(exchange: Exchange, function: str, *args: Any) -> list[Any]:
    """Call a function on every rank and return what each returned."""
    per_rank = [args] * exchange.setup.world_size
    return [result.value for result in exchange.call(function, per_rank, {}, timeout_s=PATIENCE_S)]


def value(launcher: Launcher, source: str, *args: Any, limits: Limits = LIMITS) -> Any:
    """Return what `f` of a submission returns in a single rank."""
    with attended(launcher, source, limits=limits) as exchange:
        return values(exchange, "f", *args)[0]


def processes(mark: str) -> dict[int, str]:
    """Return the processes whose command line contains `mark`; a forked process has its parent's."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if mark in line:
                found[int(process.name)] = line
    return found


def comes_true(claim: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    """Wait until `claim()` holds; return whether it came to."""
    deadline = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True

"""Run commands and programs again and again, and keep what they cost."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """One measured figure beside the bound that it has to keep; `bound` is "" for a figure without one."""

    what: str
    value: str
    bound: str = ""
    kept: bool = True


def copy_of_course(target: Path) -> Path:
    """Copy this checkout without what tools made, and return the copy."""
    ignored = shutil.ignore_patterns(".git", ".nox", "__pycache__", "*_cache", "notes.jsonl")
    return Path(shutil.copytree(ROOT, target, ignore=ignored))


def median_s(action: Callable[[], object], repeats: int = 5) -> float:
    """Return the median wall time of `action`."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def command_s(command: Sequence[str], repeats: int = 5, **environment: str) -> float:
    """Return the median wall time of a command, whatever its exit code; raise if it ends by a signal or usage error."""

    def run() -> None:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False)
        if done.returncode not in {0, 1}:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:].decode()}")

    return median_s(run, repeats)


def import_torch_s() -> float:
    """Return T: the wall time of `python -c "import torch"`."""
    return command_s([sys.executable, "-c", "import torch"])


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy with something else."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def descendants(pid: int) -> set[int]:
    """Return the processes below `pid`, at this moment."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(folder.joinpath("stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # gone meanwhile
            continue
        parents.setdefault(parent, []).append(int(folder.name))
    found, pending = set(), [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        found |= set(children)
        pending += children
    return found


def memory_bytes(pids: set[int]) -> int:
    """Return the memory of these processes, what they share counted once (PSS)."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Watch this process and all below it; the list then holds the highest sum that was seen, in bytes."""
    peak, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], memory_bytes({os.getpid(), *descendants(os.getpid())}))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()

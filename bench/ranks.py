"""How fast ranks start, what they cost, and whether three hundred runs leave anything behind."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np

from bench.measure import ROOT, Row, busy_cores, command_s, descendants, median_s, peak_memory
from grader.judging import Group, tensor
from grader.launch import Launcher, open_launcher
from grader.records import Exercise
from grader.student import Student

PRELOAD = ("numpy", "torch", "torch.distributed")
RING = (ROOT / "reference/ch1_data_parallel/ring_all_reduce/ring_all_reduce.py").read_bytes()
SUM = b"""
import torch.distributed as dist
def f(x, group):
    dist.all_reduce(x, group=group)
    return x
"""
SPAWN = """
import sys, tempfile, torch, torch.distributed as dist, torch.multiprocessing as mp
def f(rank, store):
    dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2)
    x = torch.ones(3)
    dist.all_reduce(x)
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(f, (tempfile.mktemp(),), 2)
"""


@contextmanager
def launcher() -> Iterator[Launcher]:
    """Open a launcher whose server has done its imports."""
    with closing(open_launcher(preload=PRELOAD)) as opened:
        student(SUM, opened).simulated("f", [(tensor(np.ones(3)), Group())])
        yield opened


def student(source: bytes, opened: Launcher, slug: str = "sample") -> Student:
    """Return a student with this source."""
    folder = Path(os.devnull)
    return Student(Exercise(slug, 1, "Sample", 10, 1, 1, folder, folder, preload=PRELOAD), source, None, opened, 1)


def starts(torch_s: float) -> list[Row]:
    """Compare the start of real ranks with torch.multiprocessing.spawn, and time a ring on eight simulated ones."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "spawn.py")
        script.write_text(SPAWN)
        spawn_s = command_s([sys.executable, str(script)], repeats=3) - torch_s
    ones, thousand = [(tensor(np.ones(3)), Group())] * 2, tensor(np.arange(1000.0))
    with launcher() as opened:
        ours_s = median_s(lambda: student(SUM, opened).ranks("f", ones), 15)
        ring = [(thousand, Group())] * 8
        ring_s = median_s(lambda: student(RING, opened, "ring_all_reduce").simulated("ring_all_reduce", ring), 15)
    return [
        Row("2 gloo ranks, one all-reduce: torch.multiprocessing.spawn", f"{spawn_s:.2f} s"),
        Row(
            "the same from the warm server",
            f"{ours_s * 1e3:.0f} ms, 1/{spawn_s / ours_s:.0f}",
            "1/20",
            spawn_s >= 20 * ours_s,
        ),
        Row("ring all-reduce on 8 simulated ranks, start included", f"{ring_s * 1e3:.0f} ms", "50 ms", ring_s <= 0.05),
    ]


def memory(_torch_s: float) -> list[Row]:
    """Measure the peak memory of everything while four ranks run."""
    with peak_memory() as peak, launcher() as opened:
        for _ in range(5):
            student(SUM, opened).ranks("f", [(tensor(np.ones(1 << 20)), Group())] * 4)
    return [
        Row("peak memory of the process tree, 4 ranks", f"{peak[0] / 2**30:.2f} GiB", "1.5 GiB", peak[0] < 1.5 * 2**30)
    ]


def endurance(_torch_s: float, runs: int = 300) -> list[Row]:
    """Run ranks three hundred times, half of them with every core busy, and count what went wrong or stayed."""
    wrong, files = 0, run_folders()
    with launcher() as opened:
        before = descendants(os.getpid())
        for number in range(runs):
            with busy_cores() if number == runs // 2 else nullcontext():
                last = runs if number == runs // 2 else number + 1
                for each in range(number, last):
                    wrong += not one_run_is_right(opened, 2 + each % 3, each % 2 == 0)
            if last == runs:
                break
        time.sleep(0.5)
        orphans = descendants(os.getpid()) - before
    leaked = run_folders() - files
    found = f"{wrong} wrong, {len(orphans)} orphans, {len(leaked)} files"
    return [
        Row(
            f"{runs} runs of 2 to 4 ranks, half with all cores busy", found, "0, 0, 0", not (wrong or orphans or leaked)
        )
    ]


def run_folders() -> set[Path]:
    """Return the folders of runs that there are."""
    return set(Path(tempfile.gettempdir()).glob("ranklings-*"))


def one_run_is_right(opened: Launcher, world_size: int, real: bool) -> bool:
    """Run one all-reduce and compare it."""
    per_rank = [(tensor(np.full(3, float(rank))), Group()) for rank in range(world_size)]
    verb = student(SUM, opened).ranks if real else student(SUM, opened).simulated
    try:
        results = verb("f", per_rank)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return False
    return all((result.value.array == sum(range(world_size))).all() for result in results)

"""Run a starter's example in processes forked from one that has imported torch: what it prints, in a tenth of the time.

The ranks that `torchrun` would start are given the same variables. Elsewhere than on Linux the command itself is run.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path

EXAMPLE_TIMEOUT_S = 120.0
PRELOAD = ["numpy", "torch", "torch.distributed"]
ASKED = re.compile(r'"--nproc-per-node", "(\d+)"')


def printed_by(starter: Path, ranks: int, environment: Mapping[str, str]) -> str:
    """Return what an example prints on so many ranks, 0 for none, and how it ended if not well.

    A starter that calls torchrun itself gets as many ranks as it asks torchrun for.
    """
    asked = ASKED.search(starter.read_text(encoding="utf-8"))
    world_size = int(asked[1]) if asked else ranks
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the server, which reads it when it imports torch
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with tempfile.TemporaryDirectory(prefix="ranklings-") as folder:
        out, port = Path(folder, "printed.txt"), _free_port()
        places = [_place(rank, world_size, port) for rank in range(world_size)] or [{}]
        processes = [context.Process(target=_be_example, args=(starter, out, {**environment, **p})) for p in places]
        for process in processes:
            process.start()
        how = _end_of(processes)
        printed = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
    return printed + how


def _place(rank: int, world_size: int, port: int) -> dict[str, str]:
    number, size = str(rank), str(world_size)
    ours = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    return {**ours, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _be_example(starter: Path, out: Path, environment: Mapping[str, str]) -> None:
    """Run the file as `python FILE` does, in its folder."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(starter.parent)
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115  # for as long as we live
    sys.argv, sys.dont_write_bytecode = [starter.name], True
    sys.path.insert(0, str(starter.parent))
    import torch

    torch.set_num_threads(1)
    runpy.run_path(starter.name, run_name="__main__")
    sys.stdout.flush()


def _end_of(processes: list[ForkServerProcess]) -> str:
    """Wait for all of them; return the line that says how they ended, nothing if well."""
    deadline = time.monotonic() + EXAMPLE_TIMEOUT_S
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
        process.join()
    if late:
        return f"(did not end within {EXAMPLE_TIMEOUT_S:.0f} s)\n"
    return f"(exit code {code})\n" if (code := max(abs(process.exitcode or 0) for process in processes)) else ""

"""A real Dask scheduler and two workers, on loopback: the same results as on one machine, also when one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from attending import comes_true
from fake_class import CLASS_SEED, command, out_of, read_grades

pytestmark = pytest.mark.timeout(600)
LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


class Cluster:
    """Hold a scheduler and two workers of one thread each."""

    def __init__(self, course: Path, folder: Path, processes: ExitStack) -> None:
        """Start them, and wait for the scheduler."""
        self._course, self._processes = course, processes
        file = folder / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", *LOOPBACK, "--port", "0", "--scheduler-file", str(file))
        assert comes_true(lambda: file.exists() and file.stat().st_size > 0, 120), "the scheduler did not start"
        self.address = json.loads(file.read_text())["address"]
        worker = ("distributed.cli.dask_worker", self.address, *LOOPBACK, "--nthreads", "1", "--no-nanny")
        self.workers = [self._start(*worker) for _ in range(2)]

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": str(self._course)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.callback(process.wait)
        self._processes.callback(process.kill)
        return process


@pytest.fixture
def cluster(class_course: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Start a cluster whose workers find the grader in the course's checkout."""
    with ExitStack() as processes:
        yield Cluster(class_course, tmp_path, processes)


def test_a_cluster_gives_what_one_machine_gives_also_when_a_worker_is_killed(
    cluster: Cluster, class_course: Path, graded_class: Path, tmp_path: Path
) -> None:
    """One of two workers is killed while it grades; its works begin again on the other."""
    arguments = (graded_class, CLASS_SEED, "--dask", cluster.address, "--out", tmp_path / "out")
    with subprocess.Popen(command(*arguments), cwd=class_course, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        lines = iter(run.stderr)
        for _ in range(3):
            next(line for line in lines if line.startswith("grading"))
        cluster.workers[0].send_signal(signal.SIGKILL)
        rest = list(lines)
    assert run.returncode == 0, rest
    assert read_grades(tmp_path / "out") == read_grades(out_of(graded_class))

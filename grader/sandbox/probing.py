"""Find out what this machine offers; in words for `doctor`, the report and refusals."""

from __future__ import annotations

import errno
import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from grader.records import Level
from grader.sandbox import paths

if sys.platform == "linux":
    from grader.sandbox import landlock, trying

SYSTEM_NAMES = {"darwin": "macOS", "win32": "Windows"}
DEVCONTAINER = "The devcontainer of this repository, or a recent Linux, offers B1."
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
APPARMOR = "apparmor_restrict_unprivileged_userns"


Error = tuple[int, str]  # number and words


@dataclass(frozen=True)
class Feature:
    """Say what one part of the sandbox is here, or why it is missing and what would bring it."""

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

    def parts(self, level: Level) -> tuple[Feature, ...]:
        """Return what `level` is made of."""
        base = (self.landlock, self.seccomp, self.limits)
        return () if level is Level.B0 else base if level is Level.B1 else (*base, self.namespaces)

    def lacks(self, level: Level) -> tuple[Feature, ...]:
        """Return the parts of `level` that are missing here."""
        return tuple(part for part in self.parts(level) if not part.available)

    def describe(self, level: Level) -> str:
        """Return what `level` is made of here, and what keeps this machine from a stronger one."""
        used = ", ".join(part.words for part in self.parts(level)) or "no sandbox"
        return "; ".join([f"{level.name}: {used}", *(part.missing for part in self.lacks(Level.B2))])


@functools.cache
def probe() -> Probe:
    """Return what this machine offers; the first call tries it, which takes a few milliseconds."""
    if sys.platform == "linux":
        found = _of_errors(trying.errors())
    else:
        name = SYSTEM_NAMES.get(sys.platform, sys.platform)
        nothing = Feature("", f"{name} has no sandbox that a process can enter by itself", DEVCONTAINER)
        found = Probe(nothing, nothing, nothing, nothing)
    return found


if sys.platform == "linux":

    def _of_errors(errors: dict[str, Error | None]) -> Probe:
        root = " (not of processes: this is root)" if os.getuid() == 0 else ""
        return Probe(
            Feature(f"limits{root}"),
            _landlock(errors["Landlock"], landlock.abi() if errors["Landlock"] is None else 0),
            _feature("seccomp", errors["seccomp"]),
            _namespaces(errors["namespaces"]),
        )


def _feature(name: str, error: Error | None, way_out: str = DEVCONTAINER) -> Feature:
    return Feature(name) if error is None else Feature(name, f"{name} refused ({error[1]})", way_out)


def _landlock(error: Error | None, abi: int) -> Feature:
    if (folder := paths.exposing()) is not None:
        fact = f"a submission must be able to read {folder}, and this repository lies in it"
        return Feature("Landlock", fact, "Move the repository to another folder.")
    if error is None:
        signals = "" if abi >= 6 else " (signals not confined)"
        return Feature(f"Landlock ABI {abi}{signals}")
    if error[0] == errno.ENOSYS:
        return Feature("Landlock", "this kernel has no Landlock (Linux 5.13 brought it)", DEVCONTAINER)
    if error[0] == errno.EOPNOTSUPP:
        return Feature(
            "Landlock", "Landlock was left out when this system started", "Add landlock to the kernel's lsm=."
        )
    return _feature("Landlock", error)


def _namespaces(error: Error | None) -> Feature:
    name = "namespaces"
    if error is None:
        return Feature(name)
    if _setting(f"kernel/{APPARMOR}") == "1":
        way_out = f"`sudo sysctl -w kernel.{APPARMOR}=0` allows them until the next start."
        return Feature(name, "namespaces refused by AppArmor", way_out)
    for setting in ("user/max_user_namespaces", "kernel/unprivileged_userns_clone"):
        if _setting(setting) == "0":
            dotted = setting.replace("/", ".")
            return Feature(
                name, f"namespaces switched off ({dotted} is 0)", f"`sudo sysctl -w {dotted}=1000` allows them."
            )
    if any(mark.exists() for mark in CONTAINER_MARKS):
        return Feature(name, f"namespaces refused by the container ({error[1]})", "Start it with fewer restrictions.")
    return _feature(name, error, "")


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:  # a kernel that has no such setting
        return ""

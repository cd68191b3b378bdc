"""Say what this machine offers, and what it lacks."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from grader import launch
from grader.errors import RanklingsError
from grader.records import Level
from grader.report.terminal import Screen, is_terminal
from grader.report.text import Line, Look, paragraph
from grader.sandbox.probing import Feature, Probe, probe

PACKAGES = ("torch", "numpy", "pytest", "pytest-timeout", "watchfiles")
NEEDED_GIB = 4.0


def configure(_parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""


def run(_arguments: argparse.Namespace, _root: Path) -> int:
    """Print one line a fact; nothing is started and nothing heavy imported."""
    screen = Screen(sys.stdout, sys.stderr)
    found = probe()
    facts = [
        _python(),
        *map(_package, PACKAGES),
        *_isolation(found),
        _start_method(),
        _cores(),
        _memory(),
        _terminal(screen),
    ]
    screen.show([line for name, words in facts for line in _fact(name, words, screen.look)])
    return 0


def _fact(name: str, words: str, look: Look) -> list[Line]:
    first, *rest = paragraph(words, look)
    return [((f"{name:>15}", "bold"), *first), *(((" " * 15, ""), *line) for line in rest)]


def _python() -> tuple[str, str]:
    return "Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"


def _package(name: str) -> tuple[str, str]:
    try:
        return name, metadata.version(name)
    except metadata.PackageNotFoundError:
        return name, "not installed in this environment; nox installs it on the first `nox -s check`"


def _isolation(found: Probe) -> list[tuple[str, str]]:
    """Name the level, and for each part whether it can be had, why not, and the way out."""
    try:
        level, _ = launch.choose_level(Level.B0, _method(), os.environ.get(launch.LEVEL_VARIABLE, ""))
        words = level.name
    except RanklingsError as error:
        words = str(error)
    parts = {
        "limits": found.limits,
        "Landlock": found.landlock,
        "seccomp": found.seccomp,
        "namespaces": found.namespaces,
    }
    return [("isolation", words), *((name, _part(part)) for name, part in parts.items())]


def _part(part: Feature) -> str:
    return f"yes: {part.words}" if part.available else f"no: {part.missing}. {part.way_out}".rstrip()


def _method() -> str:
    return os.environ.get(launch.METHOD_VARIABLE) or ("fork" if sys.platform == "linux" else "spawn")


def _start_method() -> tuple[str, str]:
    words = {
        "fork": "fork: ranks start in milliseconds",
        "spawn": "spawn: ranks come from a pool that starts in seconds",
    }
    return "start method", words.get(_method(), _method())


def _cores() -> tuple[str, str]:
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return "cores", f"{usable}: `nox -s check -- --jobs {usable}` uses all" if usable > 1 else "1"


def _memory() -> tuple[str, str]:
    if sys.platform == "win32":
        return "memory", "not looked at on Windows"
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    enough = "" if gib >= NEEDED_GIB else f"; exercises with several ranks want {NEEDED_GIB:.0f} GiB"
    return "memory", f"{gib:.1f} GiB{enough}"


def _terminal(screen: Screen) -> tuple[str, str]:
    kind = "a terminal" if is_terminal(screen.out) else "no terminal"
    colour = "colour" if screen.has_colour else "no colour"
    return "output", f"{kind}, {screen.out.encoding}, {colour}, signs {screen.look.passed} {screen.look.failed}"

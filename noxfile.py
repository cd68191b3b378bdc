#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11,<3.15"
# dependencies = ["nox>=2025.2.9"]
# ///
"""Ranklings: `nox -s SESSION -- ARGS`, each session one verb of `python -m grader` in an environment that fits it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nox

nox.needs_version = ">=2025.2.9"  # reads dependency groups
nox.options.sessions = ["check"]
# A student reads the grader's words, and nox's only when it cannot go on.
logging.getLogger("nox").setLevel(logging.WARNING)

ROOT = Path(__file__).resolve().parent
PROJECT = nox.project.load_toml(ROOT / "pyproject.toml")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # torch without 2 GB of CUDA libraries
WAY_OUT = "Way out: see `Machines` in README.md; the devcontainer has all that is needed."

Session = Callable[[nox.Session], None]


def student(function: Session) -> Any:
    """Make a session for everyone; it brings its own environment, so that all of them can share one."""
    return nox.session(venv_backend="none", name=function.__name__.rstrip("_"))(function)


def maintainer(function: Session) -> Any:
    """Make a session only where its subject is: the students' copy has no tests."""
    return student(function) if (ROOT / "tests").is_dir() else function


# --- students ---------------------------------------------------------------------------------------------------------


@student
def check(session: nox.Session) -> None:
    """Check your repairs in course order, or those you name: nox -s check -- [SLUG ...]."""
    grader(session, "check")


@student
def run(session: nox.Session) -> None:
    """Run an exercise's own example: nox -s run -- SLUG."""
    grader(session, "run")


@student
def list_(session: nox.Session) -> None:
    """Show the course, what is repaired and what is next."""
    grader(session, "list")


@student
def hint(session: nox.Session) -> None:
    """Get the next, stronger hint: nox -s hint -- SLUG."""
    grader(session, "hint")


@student
def predict(session: nox.Session) -> None:
    """Say what an experiment will show, then see what your code does: nox -s predict -- SLUG."""
    grader(session, "predict")


@student
def explain(session: nox.Session) -> None:
    """Name what was wrong once an exercise passes, then read on: nox -s explain -- SLUG."""
    grader(session, "explain")


@student
def quiz(session: nox.Session) -> None:
    """Take a chapter's knowledge check: nox -s quiz -- CHAPTER."""
    grader(session, "quiz")


@student
def reset(session: nox.Session) -> None:
    """Get the original starter back; your file is kept beside it: nox -s reset -- SLUG."""
    grader(session, "reset")


@student
def playground(session: nox.Session) -> None:
    """Open the interactive pages: nox -s playground -- [CHAPTER]."""
    grader(session, "playground", environment="playground")


@student
def doctor(session: nox.Session) -> None:
    """Say what this machine offers and what it lacks."""
    grader(session, "doctor")


# --- instructors and maintainers --------------------------------------------------------------------------------------


@maintainer
def new(session: nox.Session) -> None:
    """Begin an exercise: nox -s new -- SLUG --chapter N."""
    grader(session, "new")


@maintainer
def release(session: nox.Session) -> None:
    """Write the students' copy: nox -s release -- DIR, or --update DIR, --gradescope F.zip, --classroom50 DIR."""
    grader(session, "release")


@maintainer
def audit(session: nox.Session) -> None:
    """Prove exercises: nox -s audit -- [SLUG ...]."""
    grader(session, "audit", environment="develop")


@maintainer
def grade(session: nox.Session) -> None:
    """Grade a class: nox -s grade -- FOLDER; with --dask ADDRESS on a cluster."""
    on_cluster = any(word.startswith("--dask") for word in session.posargs)
    grader(session, "grade", environment="cluster" if on_cluster else "grade")


@maintainer
def tests(session: nox.Session) -> None:
    """Run the tests of the grader itself: nox -s tests -- [PYTEST ARGS]."""
    several = () if session.posargs else ("-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile")
    session.run(python_of(session, "develop"), "-m", "pytest", *several, *session.posargs, log=False)


@maintainer
def browser(session: nox.Session) -> None:
    """Try the interactive pages in a real browser: nox -s browser -- [PYTEST ARGS]."""
    session.run(python_of(session, "develop"), "-m", "pytest", "browser", *session.posargs, log=False)


@maintainer
def lint(session: nox.Session) -> None:
    """Check style and types."""
    python = python_of(session, "develop")
    session.run(python, "-m", "ruff", "check", ".", log=False)
    session.run(python, "-m", "ruff", "format", "--check", ".", log=False)
    session.run(python, "-m", "mypy", log=False)


@maintainer
def bench(session: nox.Session) -> None:
    """Run what takes long: measure, write BENCH.md, try every mutant: nox -s bench -- [PART ...]."""
    session.run(python_of(session, "develop"), "-m", "bench", *session.posargs, log=False)
    if not session.posargs:
        grader(session, "audit", "--thorough", environment="develop")
        grader(session, "audit", "--mutate", environment="develop")


# --- how -------------------------------------------------------------------------------------------------------------


def grader(session: nox.Session, verb: str, *options: str, environment: str = "check") -> None:
    """Run one verb, and pass its exit code on instead of nox's own 1."""
    command = [python_of(session, environment), "-m", "grader", verb, *options, *session.posargs]
    exit_code = run_to_its_end(command)
    if exit_code:
        raise SystemExit(exit_code)


def run_to_its_end(command: list[str]) -> int:
    """Run a command; Ctrl-C reaches it too, and it ends in its own time, with its report written."""
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONUTF8": "1"}) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def python_of(session: nox.Session, group: str) -> str:
    """Return the Python of a dependency group's environment, made again only when the pins or this Python changed."""
    folder = ROOT / ".nox" / group
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, requirements = folder / "ranklings-stamp.txt", nox.project.dependency_groups(PROJECT, group)
    described = json.dumps([sys.version_info[:2], platform.machine(), requirements])
    wanted = hashlib.sha256(described.encode()).hexdigest()
    if not (python.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
        make_environment(session, folder, python, requirements)
        stamp.write_text(wanted, encoding="utf-8")  # last, so that an interrupted install is done again
    return str(python)


def make_environment(session: nox.Session, folder: Path, python: Path, requirements: tuple[str, ...]) -> None:
    """Install the requirements into a fresh environment; virtualenv works where `venv` lacks ensurepip."""
    refuse_unfit_python(session)
    name = folder.relative_to(ROOT)
    print(f"Making {name}, once: PyTorch is large, this takes some minutes.", flush=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *index_options(), *requirements]
    for command in ([sys.executable, "-m", "virtualenv", "-qq", "--clear", str(folder)], pip):
        if exit_code := run_to_its_end(command):
            session.error(f"{command[2]} could not make {name} (exit code {exit_code}, its reason above). {WAY_OUT}")


def refuse_unfit_python(session: nox.Session) -> None:
    """Say in a sentence what pip would say in forty lines."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 14):
        session.error(f"The course runs on Python 3.11 to 3.14, and this is {platform.python_version()}. {WAY_OUT}")
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        session.error(f"PyTorch has no current release for Macs with Intel processors. {WAY_OUT}")


def index_options() -> list[str]:
    """Prefer PyTorch's own index for CPUs on Linux without an NVIDIA GPU, where pip's would bring CUDA's libraries."""
    index = os.environ.get("RANKLINGS_TORCH_INDEX")
    if index is None and is_linux_without_gpu():
        index = CPU_INDEX if answers(CPU_INDEX) else ""
        if not index:
            print(f"{CPU_INDEX} does not answer; going on with pip's own configuration.", flush=True)
    return ["--extra-index-url", index] if index else []


def is_linux_without_gpu() -> bool:
    """Look for NVIDIA's device file or its tool."""
    return sys.platform == "linux" and not Path("/dev/nvidia0").exists() and shutil.which("nvidia-smi") is None


def answers(url: str) -> bool:
    """Try a connection, for two seconds at most."""
    try:
        with socket.create_connection((urlsplit(url).hostname, 443), timeout=2):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    nox.main()

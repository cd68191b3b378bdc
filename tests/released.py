"""Make students' copies of small courses, and run them as a newcomer or a service does."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nox.project

from grader.release.members import students_copy
from grader.release.writing import write_folder


def release(course: Path, folder: Path) -> Path:
    """Write the students' copy of a course and begin a repository there, which is all that a student does."""
    write_folder(students_copy(course), folder)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, git's own part and environments left out."""
    found = (path for path in folder.rglob("*") if path.is_file() and not {".git", ".nox"} & set(path.parts))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def python_in(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the copy with this environment's Python."""
    env = {**os.environ, **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=110, check=False)


def grader_in(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the copy's own grader, as nox does."""
    return python_in(folder, "-m", "grader", *arguments, **environment)


def install(folder: Path) -> None:
    """Make this environment the one that nox would install into the copy, so that no test downloads PyTorch."""
    environment = folder / ".nox" / "check"
    pins = nox.project.dependency_groups(nox.project.load_toml(folder / "pyproject.toml"), "check")
    described = json.dumps([sys.version_info[:2], platform.machine(), pins])
    script(environment / "bin" / "python", f'exec "{sys.executable}" "$@"')
    (environment / "ranklings-stamp.txt").write_text(hashlib.sha256(described.encode()).hexdigest(), encoding="utf-8")


def script(path: Path, line: str) -> Path:
    """Write a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def without_installing(folder: Path) -> Mapping[str, str]:
    """Return an environment whose `python` is this one, but for pip, which installs nothing."""
    line = f'[ "$1 $2" = "-m pip" ] && exit 0\nexec "{sys.executable}" "$@"'
    script(folder / "python", line)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

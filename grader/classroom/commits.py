"""Find out which commit was handed in and when, reading nothing of the student's repository but its objects.

git runs in a repository of ours, empty but for the student's object store: so no configuration, hook, attribute,
alternate ref or submodule of the student's has a say, and nothing is fetched.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from threading import Timer
from typing import Final

from grader.errors import RefusedFile
from grader.files_in import read_regular

OBJECT_NAME: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
REF: Final = re.compile(r"ref: (refs/heads/[\w./@+-]{1,200})")
MAX_COMMITS, MAX_LOG_BYTES, LOG_S = 2000, 8 << 20, 20.0
MAX_PACKED_REFS_BYTES: Final = 4 << 20
CONFIG = "[core]\n\tbare = true\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = {format}\n"
ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
LOG: Final = (
    "--literal-pathspecs --no-pager log --first-parent -m --name-only --no-renames --no-ext-diff --no-textconv "
    f"--no-show-signature --max-count={MAX_COMMITS} --format=@%ct"
).split()


def git_is_there() -> bool:
    """Return whether commit dates can be read."""
    return which("git") is not None


def commit_of(root: Path) -> str:
    """Return the name of the commit that is checked out in a repository, or "" if there is none to be seen."""
    try:
        head = _line(root, ".git/HEAD")
        if OBJECT_NAME.fullmatch(head):
            return head
        ref = REF.fullmatch(head)
        return _resolved(root, ref[1]) if ref else ""
    except RefusedFile:
        return ""


def dates_of(root: Path, commit: str, files: Iterable[str]) -> dict[str, int]:
    """Return for each file when it last changed on the way to this commit, in seconds since 1970.

    Of a file that the log does not tell (of a long history) it is the date of the newest commit.
    """
    if not commit or not (root / ".git" / "objects").is_dir():
        return {}
    found: dict[str, int] = {}
    newest = time_s = 0
    for line in _log(root / ".git" / "objects", commit, _shallow(root)):
        if line.startswith("@") and line[1:].isdecimal():
            time_s = int(line[1:])
            newest = newest or time_s
        elif line:
            found.setdefault(line, time_s)
    return {file: found.get(file, newest) for file in files} if newest else {}


def _resolved(root: Path, ref: str) -> str:
    try:
        name = _line(root, f".git/{ref}")
    except RefusedFile:
        packed = read_regular(root, ".git/packed-refs", MAX_PACKED_REFS_BYTES).decode("utf-8", "replace")
        name = next((line.split(" ")[0] for line in packed.split("\n") if line.endswith(f" {ref}")), "")
    return name if OBJECT_NAME.fullmatch(name) else ""


def _shallow(root: Path) -> str:
    """Return where a shallow clone's history ends, so that git does not look for what lies before."""
    try:
        lines = read_regular(root, ".git/shallow", MAX_PACKED_REFS_BYTES).decode("utf-8", "replace").split("\n")
    except RefusedFile:
        return ""
    return "".join(f"{line}\n" for line in lines if OBJECT_NAME.fullmatch(line))


def _line(root: Path, name: str) -> str:
    return read_regular(root, name, 1024).decode("utf-8", "replace").strip()


def _log(objects: Path, commit: str, shallow: str) -> Iterator[str]:
    """Yield the lines of the commit's log, as far as they can be had in time and space."""
    with _empty_repository(objects, "sha256" if len(commit) == 64 else "sha1", shallow) as environment:
        command = ["git", *LOG, commit, "--"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.DEVNULL
        ) as git:
            timer = Timer(LOG_S, git.kill)
            timer.start()
            assert git.stdout is not None, "a pipe was asked for"
            text = git.stdout.read(MAX_LOG_BYTES).decode("utf-8", "replace")
            git.kill()
            timer.cancel()
    yield from text.split("\n")


@contextmanager
def _empty_repository(objects: Path, object_format: str, shallow: str) -> Iterator[dict[str, str]]:
    """Make a repository of ours and yield the environment in which git takes its objects from elsewhere."""
    with tempfile.TemporaryDirectory(prefix="ranklings-git-") as folder:
        for name in ("objects", "refs"):
            Path(folder, name).mkdir()
        Path(folder, "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
        if shallow:
            Path(folder, "shallow").write_text(shallow, encoding="utf-8")
        Path(folder, "config").write_text(CONFIG.format(format=object_format), encoding="utf-8")
        places = {"GIT_DIR": folder, "GIT_OBJECT_DIRECTORY": str(objects.absolute()), "HOME": folder}
        yield {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT, **places}

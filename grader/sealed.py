"""Hold the instructor's half in one obscured file, and open it as the folder that it stands for.

It keeps honest students from reading ahead, and keeps nothing secret: this module undoes it.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from grader.errors import GraderError

NAME = "reference.sealed"
SCHEMA = "ranklings/sealed/1"
PREFIX, GRACE_S = "ranklings-opened-", 60
WAY_OUT = f"Get it back: git checkout -- {NAME}"


def seal(members: Mapping[str, str]) -> bytes:
    """Return the sealed file of these texts, named by their paths below `reference/`; the same for the same texts."""
    whole = {"schema": SCHEMA, "files": dict(sorted(members.items()))}
    return _mask(json.dumps(whole, ensure_ascii=True, separators=(",", ":")).encode("ascii"))


def unseal(sealed: bytes) -> dict[str, str]:
    """Return the texts of a sealed file by name.

    Raises:
        GraderError: the file is not whole, or of another version.
    """
    try:
        whole = json.loads(_mask(sealed))
    except ValueError:
        raise GraderError(f"{NAME} is damaged. {WAY_OUT}") from None
    if whole.get("schema") != SCHEMA:
        raise GraderError(f"{NAME} belongs to another version of the grader. {WAY_OUT}")
    return dict(whole["files"])


@functools.cache
def reference_of(root: Path) -> Path:
    """Return the folder of the instructor's half: `reference/`, or what the sealed file stands for.

    That is a private folder of this process, which no rank of level B1 may enter; it goes when the process ends.
    """
    folder, file = root / "reference", root / NAME
    if folder.is_dir() or not file.is_file():
        return folder
    texts = unseal(file.read_bytes())
    opened = _private_folder() / "reference"  # a message names a path from here on
    for name, text in texts.items():
        path = opened / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return opened


def _mask(data: bytes) -> bytes:
    """Exchange each bit that a fixed stream names; done twice, it is undone."""
    stream = hashlib.shake_256(SCHEMA.encode()).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _private_folder() -> Path:
    """Return a new folder that only this user may enter; it goes with the process, at the latest with the next one."""
    if sys.platform != "win32":
        _take_away_what_was_left()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if sys.platform != "win32":
        _lock(folder)
    atexit.register(_remove, folder, os.getpid())
    return folder


def _take_away_what_was_left() -> None:
    """Remove the folders of processes that were killed: old enough to be locked if anybody still used them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > GRACE_S:
                os.close(_lock(folder))
                shutil.rmtree(folder, ignore_errors=True)


def _lock(folder: Path) -> int:
    """Lock a folder until this process ends, however it ends; OSError where another process has."""
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove(folder: Path, owner: int) -> None:
    """Take the folder away, but not when a fork of its owner ends."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

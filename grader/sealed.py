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
import tempfile
from collections.abc import Mapping
from pathlib import Path

from grader.errors import GraderError

NAME = "reference.sealed"
SCHEMA = "ranklings/sealed/1"
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
    private = Path(tempfile.mkdtemp(prefix="ranklings-"))
    atexit.register(_remove, private, os.getpid())
    opened = private / "reference"  # a message names a path from here on
    for name, text in unseal(file.read_bytes()).items():
        path = opened / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return opened


def _mask(data: bytes) -> bytes:
    """Exchange each bit that a fixed stream names; done twice, it is undone."""
    stream = hashlib.shake_256(SCHEMA.encode()).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


def _remove(folder: Path, owner: int) -> None:
    """Take the folder away, but not when a fork of its owner ends."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)

"""The folder of one run: how much has been written into it, and how to take it away whatever is in it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

MAX_ENTRIES = 20_000
BLOCK_BYTES = 512


def exceeds(folder: Path, disk_bytes: int) -> bool:
    """Return whether `folder` holds more than `disk_bytes`, or cannot be measured."""
    used_bytes, entries, pending = 0, 0, [folder]
    while pending:
        try:
            for path in pending.pop().iterdir():
                status = path.lstat()
                entries += 1
                used_bytes += _on_disk(status)
                if used_bytes > disk_bytes or entries > MAX_ENTRIES:
                    return True
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
        except (FileNotFoundError, NotADirectoryError):  # taken away or replaced meanwhile
            continue
        except OSError:  # closed to its owner, or a path too long to be named: nobody can say how much is in there
            return True
    return False


def _on_disk(status: os.stat_result) -> int:
    if sys.platform == "win32":
        size_bytes = status.st_size
    else:
        size_bytes = status.st_blocks * BLOCK_BYTES  # holes take no place
    return size_bytes


def remove(folder: Path) -> None:
    """Take `folder` away with all that is in it, closed and bottomless folders too."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if sys.platform != "win32" and folder.is_dir() and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)

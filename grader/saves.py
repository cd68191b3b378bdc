"""Notice which exercises' files were saved, however an editor saves them and wherever the folder lies."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from watchfiles import Change, DefaultFilter, watch

LOOK_MS = 100  # how often the caller gets its turn while nothing happens
SETTLE_MS = 50  # an editor's save is several events: take those together that follow within this time
POLL_EVERY = 4  # turns, where nothing is announced
VARIABLE = "RANKLINGS_WATCH"
MOUNTS = Path("/proc/self/mountinfo")
# Files that change on another machine, or beyond the kernel, are not announced here.
_DISTANT = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ncpfs|vboxsf|prl_fs|drvfs|virtiofs|fuse\.(?!fuse-overlayfs)\w.*|fuseblk"
)


class SubmissionFilter(DefaultFilter):
    """Let pass what an exercise's own file is called: `SLUG/SLUG.py`, two folders below the one that is watched."""

    def __init__(self, exercises: Path) -> None:
        """Watch the exercises in this folder."""
        super().__init__()
        self.exercises = exercises

    def __call__(self, change: Change, path: str) -> bool:
        """Say whether the path is a submission's."""
        file = Path(path)
        return change is not Change.deleted and file.suffix == ".py" and self._is_submission(file)

    def _is_submission(self, file: Path) -> bool:
        return file.stem == file.parent.name and file.parents[2] == self.exercises


def saved(exercises: Path) -> Generator[frozenset[str]]:
    """Yield the slugs whose files were written, renamed into place or replaced; nothing every now and then.

    The folder is watched, not the files in it: a file that another takes the place of would be lost from sight.
    """
    exercises = exercises.resolve()
    if os.environ.get(VARIABLE) != "poll" and not needs_polling(exercises):
        with suppress(OSError):  # the system has no more watches to give: then look by ourselves
            yield from _announced(exercises)
            return
    yield from _polled(exercises)


def _announced(exercises: Path) -> Generator[frozenset[str]]:
    for changes in watch(
        exercises,
        watch_filter=SubmissionFilter(exercises),
        step=SETTLE_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        force_polling=False,
    ):
        yield frozenset(Path(path).stem for _, path in changes if Path(path).exists())


def _polled(exercises: Path) -> Generator[frozenset[str]]:
    """Look at the submissions alone, and at more than the library's own polling does: it takes whole seconds."""
    seen = _signatures(exercises)
    while True:
        for _ in range(POLL_EVERY):
            yield frozenset()
            time.sleep(LOOK_MS / 1000)
        now = _signatures(exercises)
        changed = frozenset(path.stem for path, signature in now.items() if seen.get(path) != signature)
        seen = now
        yield changed


def _signatures(exercises: Path) -> dict[Path, tuple[int, int, int]]:
    """Return what changes in each submission's entry when it is saved in whatever way."""
    found = {}
    for folder in exercises.glob("ch*_*/*/"):
        path = folder / f"{folder.name}.py"
        with suppress(OSError):
            status = path.stat()
            found[path] = status.st_mtime_ns, status.st_size, status.st_ino
    return found


def needs_polling(folder: Path, mounts: str | None = None) -> bool:
    """Say whether changes in a folder are not announced: on network mounts, and where Windows' disks are in WSL."""
    if mounts is None:
        if sys.platform != "linux" or not MOUNTS.exists():
            return False
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4]))
        if folder.is_relative_to(point) and len(point.parts) >= best:  # the later one lies on top
            best, kind = len(point.parts), after.split(" ")[0]
    return _DISTANT.fullmatch(kind) is not None

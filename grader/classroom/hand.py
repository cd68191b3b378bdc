"""The process that grades one work after another: a line of JSON in, a line of JSON out, until its input ends."""

from __future__ import annotations

import base64
import functools
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from grader import catalog
from grader.classroom.verdict import Json, digest, failed, judge, to_json
from grader.errors import RanklingsError
from grader.launch import Launcher, open_launcher
from grader.records import Exercise, Level, Outcome

DIFFERS = (
    "The checks here are not those of the computer that asks. Bring the course on every worker to the same version."
)


def main(_arguments: list[str]) -> None:
    """Grade until the input ends; whoever holds its other end may end at any time."""
    signal.signal(signal.SIGTERM, _leave)
    with _answers_to_ourselves() as out:
        hand = _Hand()
        threading.Thread(target=hand.listen, args=(sys.stdin.buffer,), daemon=True).start()
        try:
            for line in hand.works():
                out.write(json.dumps(hand.grade(json.loads(line))).encode() + b"\n")
                out.flush()
        except KeyboardInterrupt:
            pass
        finally:
            hand.close()


class _Hand:
    """Hold one launcher, opened with the first work, and what came in."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_busy = False
        self._launcher: Launcher | None = None

    def listen(self, stream: BinaryIO) -> None:
        """Take works as they come; when nobody is left to ask, end also what is being graded."""
        for line in stream:
            self._lines.put(line)
        self._lines.put(b"")
        if self._is_busy:
            os.kill(os.getpid(), signal.SIGTERM)

    def works(self) -> Iterator[bytes]:
        """Yield works until there will be none."""
        while line := self._lines.get():
            self._is_busy = True
            yield line
            self._is_busy = False

    def grade(self, work: dict[str, Any]) -> Json:
        """Return the verdict on one work, an ERROR with a sentence where it could not be graded."""
        exercise = _exercise(work["root"], work["folder"])
        try:
            if digest(exercise) != work["digest"]:
                return to_json(failed(exercise, DIFFERS, Outcome.ERROR))
            self._launcher = self._launcher or open_launcher(Level[work["level"]])
            return to_json(judge(exercise, base64.b64decode(work["source"]), self._launcher, work["seed"]))
        except RanklingsError as error:
            return to_json(failed(exercise, str(error), Outcome.ERROR))

    def close(self) -> None:
        """End what the launcher started."""
        if self._launcher is not None:
            with closing(self._launcher):
                pass


@functools.cache
def _exercise(root: str, folder: str) -> Exercise:
    """Read an exercise from where the work was made, or on another machine from the checkout that this is."""
    home = Path(root) if Path(root, folder).is_dir() else catalog.find_root()
    return catalog.load_exercise(home, home / folder / "exercise.toml")


@contextmanager
def _answers_to_ourselves() -> Iterator[BinaryIO]:
    """Keep the way back for answers alone: whatever a library prints goes where errors go."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        yield out


def _leave(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt  # which pytest passes on; it would take SystemExit for a failed check

"""Grade with several processes at a time; one that dies costs the work it had, once, and is replaced."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from grader.classroom.collect import Course
from grader.classroom.store import Waiting
from grader.classroom.verdict import Json
from grader.errors import GraderError
from grader.launch.programs import command
from grader.records import Exercise, Level

WORKS_PER_HAND: Final = 300  # then a fresh one: whatever grows in a process stays small
GUARD_S: Final = 1800.0  # for one work; every check of it has a far lower guard of its own
END_S: Final = 5.0
DIED = "The process that graded this ended, twice: of too little memory, or by somebody's hand. Run `grade` again."

Submit = Callable[[dict[str, Any]], "Future[Json]"]


@dataclass(frozen=True)
class Pool:
    """Say how to hand a work to somebody, and how many may be on their way at a time."""

    submit: Submit
    width: Callable[[], int]


class Hand:
    """Hold one process that grades, and ask it."""

    def __init__(self) -> None:
        """Start it; it opens its launcher with the first work."""
        self.asked = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 it lives as long as the process
        self._process = subprocess.Popen(
            command("grader.classroom.hand"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for us; the end of its input tells it
        )

    def ask(self, work: dict[str, Any]) -> Json | None:
        """Return the verdict on a work, or None if the process died of it."""
        self.asked += 1
        guard = threading.Timer(GUARD_S, self._process.kill)
        guard.start()
        try:
            assert self._process.stdin is not None, "both are pipes"
            assert self._process.stdout is not None, "both are pipes"
            self._process.stdin.write(json.dumps(work).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            return json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):  # it is gone, or was closed meanwhile
            return None
        finally:
            guard.cancel()

    def close(self) -> None:
        """End the process and what it started."""
        with suppress(OSError, ValueError):
            self._process.stdin.close()  # type: ignore[union-attr]  # a pipe was asked for
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Hands:
    """Hold a process for each thread that asks."""

    def __init__(self) -> None:
        """Begin without any."""
        self._own = threading.local()
        self._all: set[Hand] = set()
        self._is_closed = False

    def grade(self, work: dict[str, Any]) -> Json:
        """Return the verdict on a work; a work that two processes die of is an ERROR with a sentence."""
        for _ in range(2):
            if self._is_closed:
                raise CancelledError
            if (verdict := self._hand().ask(work)) is not None:
                return verdict
            self._drop()
        if self._is_closed:
            raise CancelledError
        return error_verdict(DIED)

    def close(self) -> None:
        """End all processes, whatever they do."""
        self._is_closed = True
        for hand in list(self._all):
            hand.close()

    def _hand(self) -> Hand:
        hand: Hand | None = getattr(self._own, "hand", None)
        if hand is not None and hand.asked >= WORKS_PER_HAND:
            self._drop()
            hand = None
        if hand is None:
            hand = self._own.hand = Hand()
            self._all.add(hand)
        return hand

    def _drop(self) -> None:
        hand: Hand = self._own.hand
        hand.close()
        self._all.discard(hand)
        self._own.hand = None


@contextmanager
def on_this_machine(jobs: int) -> Iterator[Pool]:
    """Yield a pool of as many processes."""
    hands = Hands()
    threads = ThreadPoolExecutor(jobs)
    try:
        yield Pool(lambda work: threads.submit(hands.grade, work), lambda: 2 * jobs)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        hands.close()
        threads.shutdown()


def as_work(waiting: Waiting, exercise: Exercise, course: Course, level: Level) -> dict[str, Any]:
    """Return all that another process needs to know to grade this, as plain data."""
    return {
        "root": str(course.root),
        "folder": exercise.student_dir.relative_to(course.root).as_posix(),
        "digest": course.digests[exercise.slug],
        "seed": course.seed,
        "level": level.name,
        "source": base64.b64encode(waiting.source).decode(),
    }


def graded(works: Iterable[tuple[str, dict[str, Any]]], pool: Pool) -> Iterator[tuple[str, Json]]:
    """Yield each work's key and verdict as they come; only a few works are taken ahead of that."""
    going: dict[Future[Json], str] = {}
    for key, work in works:
        going[pool.submit(work)] = key
        while len(going) >= pool.width():
            yield from _finished(going)
    while going:
        yield from _finished(going)


def error_verdict(message: str) -> Json:
    """Return the verdict that something of ours went wrong."""
    return {
        "outcome": "error",
        "message": message,
        "seconds": 0.0,
        "level": Level.B0.name,
        "checks": [],
        "held_out": [],
    }


def _finished(going: dict[Future[Json], str]) -> Iterator[tuple[str, Json]]:
    for future in wait(going, return_when=FIRST_COMPLETED).done:
        key = going.pop(future)
        try:
            yield key, future.result()
        except CancelledError:
            raise GraderError("The connection to those who grade was lost. Run `grade` again: it goes on.") from None

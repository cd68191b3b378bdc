"""Keep what a student did: append-only `notes.jsonl` beside the exercise, one JSON event a line.

A student may edit the file and git may merge it, so nothing in it is trusted: no grade depends on it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from grader.errors import RefusedFile
from grader.files_in import read_regular
from grader.records import Exercise, Outcome

NAME = "notes.jsonl"
MAX_BYTES = 4 << 20
MAX_COMPLAINTS = 5

Event = dict[str, Any]

# The fields that a note of these kinds has, and their exact types; other kinds are kept as they are.
_FIELDS: dict[str, dict[str, type]] = {
    "run": {"outcome": str, "first_failure": str, "seed": int, "passed": int},
    "hint": {"check": str, "number": int},
    "answer": {"question": str, "right": bool, "seed": int},
    "prediction": {"guess": str, "reason": str, "code": str},
    "result": {"results": list, "code": str},
    "mechanism": {"choice": str, "right": bool, "seed": int},
    "reset": {"kept": str},
}
_COMMON: dict[str, type] = {"id": str, "time": str, "kind": str}
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_APPEND |= getattr(os, "O_BINARY", 0)


def append(folder: Path, kind: str, **fields: object) -> str | None:
    """Add one event to the folder's notes; return a sentence if it could not be kept."""
    event = {"id": uuid4().hex, "time": datetime.now(UTC).isoformat(timespec="microseconds"), "kind": kind, **fields}
    line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
    try:
        descriptor = os.open(folder / NAME, _APPEND, 0o644)
        try:
            return _append_line(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{NAME} was not written ({error.strerror}): this run leaves no note in {folder.name}."


def read(folder: Path) -> tuple[list[Event], list[str]]:
    """Return the folder's events, oldest first and each once, and a sentence for each line that is none."""
    if not os.path.lexists(folder / NAME):
        return [], []
    try:
        return events_of(read_regular(folder, NAME, MAX_BYTES), folder.name)
    except RefusedFile as refusal:
        return [], [str(refusal)]


def events_of(content: bytes, folder_name: str) -> tuple[list[Event], list[str]]:
    """Return the events in the bytes of a notes file, and a sentence for each line that is none."""
    lines = content.split(b"\n")
    parsed = [(number, _parse(line)) for number, line in enumerate(lines, 1) if line.strip()]
    events = {event["id"]: event for _, event in parsed if event is not None}  # a merge may leave a line twice
    broken = [number for number, event in parsed if event is None]
    return sorted(events.values(), key=lambda event: event["time"]), _complaints(folder_name, broken)


def of(exercise: Exercise) -> tuple[list[Event], list[str]]:
    """Return what `read` does for an exercise, and what was noted while it had another name."""
    read_here = [read(folder) for folder in (*exercise.former_dirs, exercise.student_dir)]
    events = {event["id"]: event for found, _ in read_here for event in found}
    complaints = [complaint for _, found in read_here for complaint in found]
    return sorted(events.values(), key=lambda event: event["time"]), complaints


def last_run(events: Iterable[Event]) -> Event | None:
    """Return the latest note of kind `run`, with outcome, first_failure, seed and passed; None after a reset."""
    last = next((event for event in reversed(list(events)) if event["kind"] in {"run", "reset"}), None)
    return last if last and last["kind"] == "run" else None


def has_passed(events: Iterable[Event]) -> bool:
    """Say whether the exercise ever passed."""
    return any(event["kind"] == "run" and event["outcome"] == Outcome.PASSED.value for event in events)


def mechanism_tries(events: Iterable[Event]) -> list[Event]:
    """Return each try to name the mechanism, with the fields choice, right and seed."""
    return [event for event in events if event["kind"] == "mechanism"]


def knows_mechanism(events: Iterable[Event]) -> bool:
    """Say whether the mechanism was named."""
    return any(event["right"] for event in mechanism_tries(events))


def hints_taken(events: Iterable[Event], check: str) -> int:
    """Return how far a student went through the hints of `check`; the report itself shows the first."""
    return max((event["number"] for event in events if event["kind"] == "hint" and event["check"] == check), default=1)


def hints_by_check(events: Iterable[Event]) -> dict[str, int]:
    """Return the furthest hint asked for, check by check, in the order of asking."""
    events = list(events)
    return {event["check"]: hints_taken(events, event["check"]) for event in events if event["kind"] == "hint"}


def best_try(events: Iterable[Event]) -> tuple[int, int]:
    """Return how many questions of a knowledge check were right in the best try, and how many were answered."""
    tries: dict[int, dict[str, bool]] = {}
    for event in events:
        if event["kind"] == "answer":
            tries.setdefault(event["seed"], {})[event["question"]] = event["right"]
    return max(((sum(answers.values()), len(answers)) for answers in tries.values()), default=(0, 0))


def outcome_of(run: Event | None) -> Outcome:
    """Return how a run ended, NOT_RUN without one."""
    known = {outcome.value: outcome for outcome in Outcome}
    return known.get(run["outcome"], Outcome.NOT_RUN) if run else Outcome.NOT_RUN


def is_repaired(exercise: Exercise) -> bool:
    """Say whether the last run passed, as far as the notes know."""
    return outcome_of(last_run(of(exercise)[0])) is Outcome.PASSED


def _append_line(descriptor: int, line: bytes) -> str | None:
    """Write the line with one call, so that two runs at once do not mix theirs."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return f"{NAME} is not an ordinary file: this run leaves no note."
    if os.write(descriptor, _missing_line_end(descriptor) + line) < len(line):
        return f"{NAME} was not written to its end: is the disk full?"
    return None


def _missing_line_end(descriptor: int) -> bytes:
    """Return the line end that an interrupted write or an editor left out, or nothing."""
    size = os.lseek(descriptor, 0, os.SEEK_END)
    if size == 0:
        return b""
    os.lseek(descriptor, -1, os.SEEK_END)
    return b"" if os.read(descriptor, 1) == b"\n" else b"\n"


def _parse(line: bytes) -> Event | None:
    """Return the event on this line, or None when it is not one."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if type(event) is not dict or not _has(event, _COMMON) or not _has(event, _FIELDS.get(event["kind"], {})):
        return None
    return event


def _has(event: Event, fields: dict[str, type]) -> bool:
    return all(type(event.get(name)) is kind for name, kind in fields.items())


def _complaints(folder_name: str, broken: Sequence[int]) -> list[str]:
    sentences = [
        f"Line {number} of {folder_name}/{NAME} is no note and was skipped." for number in broken[:MAX_COMPLAINTS]
    ]
    if len(broken) > MAX_COMPLAINTS:
        sentences.append(f"{len(broken) - MAX_COMPLAINTS} more lines of {folder_name}/{NAME} are no notes.")
    return sentences

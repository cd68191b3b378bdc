"""Write what the ranks said to each other in the trace format of Chrome, which Perfetto and chrome://tracing open.

A run of ranks is a process there, a rank a few threads, an operation a block:
https://perfetto.dev/docs/getting-started/other-formats
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from grader.posts import COLLECTIVES, MESSAGES, RECEIVES, SENDS
from grader.records import Call, Report, Talk
from grader.report.as_json import replace_file
from grader.safe_text import clean

MOST_EVENTS = 200_000  # a viewer with more is no help
MOST_LANES = 64  # of a rank: operations that overlap
FIRST_TRACK = 1  # 0 is no thread of its own to Perfetto: https://github.com/google/perfetto/pull/2278
JOINED = {"simulated": "on the simulated network, virtual time", "gloo": "on gloo, real time"}


def write(report: Report, path: Path) -> None:
    """Replace the file at `path` with the trace of this report's runs."""
    replace_file(path, json.dumps(to_trace(_talks(report)), ensure_ascii=False) + "\n")


def to_trace(talks: Iterable[tuple[str, Talk]]) -> dict[str, Any]:
    """Return titled runs as what JSON can hold; names that a submission chose are made harmless."""
    events: list[dict[str, Any]] = []
    for number, (title, talk) in enumerate(talks, 1):
        if len(events) >= MOST_EVENTS:
            return {"displayTimeUnit": "ms", "traceEvents": events, "cut": f"after {MOST_EVENTS} events"}
        events.append({"ph": "M", "name": "process_name", "pid": number, "tid": FIRST_TRACK, "args": {"name": title}})
        last_s = max((max(call.end_s, call.posted_s) for calls in talk.calls for call in calls), default=0.0)
        end_s = 1.1 * last_s + 1e-6  # so that what never ended is seen to last
        for rank, calls in enumerate(talk.calls):
            for lane, (name, together) in enumerate(_lanes(calls, end_s)):
                track = {"pid": number, "tid": FIRST_TRACK + rank * MOST_LANES + lane}
                events.append({"ph": "M", "name": "thread_name", **track, "args": {"name": f"rank {rank} {name}"}})
                events += [_event(call, end_s) | track for call in together]
    return {"displayTimeUnit": "ms", "traceEvents": events[:MOST_EVENTS]}


def _talks(report: Report) -> Iterator[tuple[str, Talk]]:
    for result in report.results:
        slug = result.submission.exercise.slug
        for check in result.checks:
            for talk in check.talks:
                ranks = f"{len(talk.calls)} rank{'s' * (len(talk.calls) > 1)} {JOINED[talk.transport]}"
                yield f"{slug}: {check.promise.name}: {clean(talk.function, 100)}, {ranks}", talk


def _lanes(calls: Sequence[Call], end_s: float) -> list[tuple[str, list[Call]]]:
    """Share out a rank's operations so that none overlaps another in its lane, as viewers ask for."""
    lanes: list[tuple[str, list[Call]]] = []
    for kind, ops in (("collectives", COLLECTIVES), ("sends", SENDS), ("receives", RECEIVES)):
        mine = sorted((call for call in calls if call.op in ops), key=lambda call: _times(call, end_s))
        free = [lane for lane in lanes if lane[0] == kind]
        for call in mine:
            lane = next((each for each in free if _times(each[1][-1], end_s)[1] <= _times(call, end_s)[0]), None)
            if lane is not None:
                lane[1].append(call)
            elif len(lanes) < MOST_LANES:
                free.append((kind, [call]))
                lanes.append(free[-1])
    return lanes


def _times(call: Call, end_s: float) -> tuple[float, float]:
    """Return start and end; what never ended lasts as long as the run."""
    return (call.start_s, call.end_s) if call.completed else (call.posted_s, end_s)


def _event(call: Call, end_s: float) -> dict[str, Any]:
    """Return one operation as a complete event."""
    start_ns, stop_ns = (round(each * 1e9) for each in _times(call, end_s))  # rounded apart, neighbours could overlap
    arguments: dict[str, Any] = {"bytes": call.payload_bytes, "shape": list(call.shape), "dtype": clean(call.dtype, 40)}
    arguments |= {"peer": call.peer} if call.peer is not None else {"group": list(call.group)}
    arguments |= {"line": call.line} if call.line else {}
    return {
        "ph": "X",
        "name": call.op if call.completed else f"{call.op} (never ended)",
        "cat": "message" if call.op in MESSAGES else "collective",
        "ts": start_ns / 1e3,
        "dur": max(0, stop_ns - start_ns) / 1e3,
        "args": arguments,
    }

"""Read a trace that `check --trace` wrote, or any of Chrome's format, and draw it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from grader.playground.blocks import Block, schedule
from grader.playground.drawing import number

MOST_BYTES = 32 << 20
MOST_RUNS, MOST_BLOCKS = 40, 2000
LOOKS = {"collective": "a", "message": "b"}


@dataclass
class Run:
    """Hold one run of ranks: its title, the names of its rows, and what they did."""

    title: str = ""
    rows: dict[int, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)


def read(content: bytes) -> list[Run] | str:
    """Return the runs of a trace that contain something, or a sentence if it is none."""
    if len(content) > MOST_BYTES:
        return f"The file has more than {MOST_BYTES >> 20} MiB. Open it in Perfetto, or trace one exercise."
    try:
        whole = json.loads(content)
        events = whole["traceEvents"] if isinstance(whole, dict) else whole
        runs: dict[int, Run] = {}
        for event in events:
            _enter(event, runs.setdefault(int(event["pid"]), Run()))
    except (ValueError, TypeError, KeyError, RecursionError):
        return "This is no trace. Write one with: nox -s check -- SLUG --trace trace.json"
    return [run for run in runs.values() if run.events]


def page(runs: list[Run] | str) -> str:
    """Return the runs as drawings, or the sentence."""
    if isinstance(runs, str):
        return f'<p class="pg-yours-note">{escape(runs)}</p>'
    if not runs:
        return "<p>The ranks of this trace said nothing to each other.</p>"
    left_out = f"<p>{len(runs) - MOST_RUNS} more runs are not drawn.</p>" if len(runs) > MOST_RUNS else ""
    return "".join(map(_figure, runs[:MOST_RUNS])) + left_out


def _enter(event: dict[str, Any], run: Run) -> None:
    if event["ph"] == "M" and event["name"] == "process_name":
        run.title = str(event["args"]["name"])[:200]
    elif event["ph"] == "M" and event["name"] == "thread_name":
        run.rows[int(event["tid"])] = str(event["args"]["name"])[:24]
    elif event["ph"] == "X":
        start, lasting = float(event["ts"]), float(event["dur"])
        if not (math.isfinite(start) and math.isfinite(lasting) and lasting >= 0):
            raise ValueError("no time")
        run.rows.setdefault(int(event["tid"]), f"rank {int(event['tid'])}")
        run.events.append({**event, "ts": start, "dur": lasting, "tid": int(event["tid"])})


def _figure(run: Run) -> str:
    order = {tid: row for row, tid in enumerate(sorted(run.rows))}
    first = min(event["ts"] for event in run.events)
    blocks = [_block(event, order, first) for event in run.events[:MOST_BLOCKS]]
    rows = [run.rows[tid] for tid in sorted(run.rows)]
    svg = schedule(run.title, rows, blocks, "µs; blue collectives, orange messages, dashed: never ended")
    return f"<figure>{svg}<figcaption>{escape(run.title)}</figcaption></figure>{_table(run)}"


def _block(event: dict[str, Any], order: dict[int, int], first: float) -> Block:
    name = str(event["name"])[:60]
    arguments = event.get("args") if isinstance(event.get("args"), dict) else {}
    look = "never" if "never ended" in name else LOOKS.get(str(event.get("cat")), "c")
    start = event["ts"] - first
    words = f"{name}, {_bytes(arguments)}, {number(start)} to {number(start + event['dur'])} µs"
    return Block(order[event["tid"]], start, start + event["dur"], name, look, words)


def _bytes(arguments: Any) -> str:
    size, peer = arguments.get("bytes"), arguments.get("peer")
    return f"{size} bytes" + (f", peer {peer}" if isinstance(peer, int) else "")


def _table(run: Run) -> str:
    cells = [
        (run.rows[each["tid"]], str(each["name"])[:60], _bytes(each.get("args") or {}), each["ts"], each["dur"])
        for each in run.events[:MOST_BLOCKS]
    ]
    head = "".join(
        f'<th scope="col">{each}</th>' for each in ("rank", "operation", "bytes", "start, µs", "lasting, µs")
    )
    rows = "".join(f"<tr>{''.join(f'<td>{escape(_cell(each))}</td>' for each in row)}</tr>" for row in cells)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<details><summary>The same as a table</summary><div class="pg-scroll" tabindex="0">{whole}</div></details>'


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)

"""What `check --trace` writes: blocks that viewers can nest, times, and who never came back."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from grader.cli import main
from grader.errors import StudentFailure
from grader.playground import timeline
from grader.records import Call, Talk
from grader.report.trace import to_trace

SENDS_AND_ADDS = """
import torch
import torch.distributed as dist

def talk(n):
    peer = 1 - dist.get_rank()
    first, second = torch.ones(n), torch.ones(n)
    works = [dist.isend(first, peer, tag=1), dist.irecv(second, peer, tag=1)]
    for work in works:
        work.wait()
    dist.all_reduce(first)

def stuck(n):
    if dist.get_rank() == 0:
        dist.recv(torch.ones(n), 1)
    else:
        dist.all_reduce(torch.ones(n))
"""


def blocks(talk: Talk) -> list[dict[str, Any]]:
    """Return the operations of a trace."""
    return [event for event in to_trace([("a run", talk)])["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_every_operation_of_a_rank_is_a_block(transport: str, student_of: Any) -> None:
    student = student_of(SENDS_AND_ADDS)
    join = student.simulated if transport == "simulated" else student.ranks
    join("talk", [(100,), (100,)])
    (talk,) = student.talks
    assert (talk.function, talk.transport) == ("talk", transport)
    found = blocks(talk)
    assert sorted(event["name"] for event in found) == sorted(2 * ["isend", "irecv", "all_reduce"])
    assert all(event["args"]["bytes"] == 400 for event in found)
    assert all(event["dur"] > 0 for event in found)
    ends = {event["name"]: event["ts"] + event["dur"] for event in found if event["pid"] == 1}
    assert max(ends, key=lambda name: ends[name]) == "all_reduce"


def test_on_the_simulated_network_times_are_those_of_the_network(student_of: Any) -> None:
    student = student_of(SENDS_AND_ADDS)
    student.simulated("talk", [(250,), (250,)], alpha_s=1e-3, beta_s_per_byte=1e-6)
    sent = next(event for event in blocks(student.talks[0]) if event["name"] == "isend")
    assert (sent["ts"], sent["dur"]) == (0.0, 2000.0)


def test_what_never_ended_lasts_as_long_as_the_run(student_of: Any) -> None:
    student = student_of(SENDS_AND_ADDS)
    with pytest.raises(StudentFailure):
        student.simulated("stuck", [(1,), (1,)])
    found = blocks(student.talks[0])
    assert [event["name"] for event in found] == ["recv (never ended)", "all_reduce (never ended)"]
    assert all(event["dur"] > 0 for event in found)
    assert_is_a_trace(json.dumps(to_trace([("a run", student.talks[0])])))


def test_blocks_of_one_track_do_not_overlap() -> None:
    """Viewers drop what does not nest."""
    calls = tuple(Call(n, "all_reduce", (0, 1), start_s=n, end_s=n + 2.5, completed=True) for n in range(20))
    tracks = defaultdict(list)
    for event in blocks(Talk("f", "gloo", (calls, calls))):
        tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert len(tracks) == 6
    for times in tracks.values():
        assert all(before[1] <= after[0] for before, after in zip(sorted(times), sorted(times)[1:], strict=False))


def test_neighbours_do_not_overlap_by_rounding() -> None:
    """Perfetto counts in nanoseconds, and drops or moves what overlaps by one of them."""
    edges = [0.6e-9 + n * 1.0006e-6 for n in range(50)]
    calls = tuple(
        Call(n, "all_reduce", (0, 1), start_s=a, end_s=b, completed=True)
        for n, (a, b) in enumerate(itertools.pairwise(edges))
    )
    assert_is_a_trace(json.dumps(to_trace([("f", Talk("f", "simulated", (calls,)))])))


def assert_is_a_trace(content: str) -> None:
    """Read a file as strictly as the published format and Perfetto's importer have it.

    Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: JSON without
    NaN; metadata events name processes and threads; times are microseconds; complete events of a thread nest. Perfetto
    drops a tid beyond 32 bits (google/perfetto#886) and took tid 0 for another thread's (google/perfetto#2278).
    """
    whole = json.loads(content, parse_constant=pytest.fail, object_pairs_hook=_without_twins)
    assert whole.keys() - {"cut"} == {"displayTimeUnit", "traceEvents"}
    assert whole["displayTimeUnit"] in {"ms", "ns"}
    named: dict[str, set[tuple[int, ...]]] = {"process_name": set(), "thread_name": set()}
    tracks = defaultdict(list)
    for event in whole["traceEvents"]:
        pid, tid = event["pid"], event["tid"]
        assert all(type(each) is int and 0 < each < 2**31 for each in (pid, tid)), event
        assert type(event["name"]) is str, event
        assert type(event["args"]) is dict, event
        if event["ph"] == "M":
            assert event.keys() == {"ph", "name", "pid", "tid", "args"}, event
            assert event["args"].keys() == {"name"}, event
            assert type(event["args"]["name"]) is str, event
            place = (pid,) if event["name"] == "process_name" else (pid, tid)
            assert place not in named[event["name"]], event
            named[event["name"]].add(place)
        else:
            assert event["ph"] == "X", event
            assert event.keys() == {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}, event
            assert type(event["cat"]) is str, event
            assert all(type(event[key]) in {int, float} and event[key] >= 0 for key in ("ts", "dur")), event
            start, lasting = (round(event[key] * 1000) for key in ("ts", "dur"))
            tracks[pid, tid].append((start, start + lasting))
    assert set(tracks) <= named["thread_name"]
    assert {(pid,) for pid, _ in tracks} <= named["process_name"]
    for times in tracks.values():
        assert all(before[1] <= after[0] for before, after in zip(sorted(times), sorted(times)[1:], strict=False))


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def test_check_writes_a_trace_that_the_page_draws(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    assert main(["check", "mean_gradients", "--trace", str(file)]) == 1
    assert_is_a_trace(file.read_text("utf-8"))
    runs = timeline.read(file.read_bytes())
    assert isinstance(runs, list)
    assert any("check_two_ranks" in run.title or "simulated network" in run.title for run in runs)
    assert "all_reduce" in timeline.page(runs)
    assert json.loads(file.read_text())["displayTimeUnit"] == "ms"


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"{}", b"[1]", b"[" * 100_000, b"\xff\xfe"],
        b'{"traceEvents": [{"ph": "X", "pid": 1, "tid": 0, "ts": NaN, "dur": 1}]}',
        b'[{"ph": "X", "pid": 1, "tid": 0, "ts": 0, "dur": -1, "name": "x"}]',
    ],
)
def test_what_is_no_trace_is_a_sentence(content: bytes) -> None:
    assert isinstance(timeline.read(content), str)


def test_names_in_a_trace_are_text() -> None:
    runs = timeline.read(
        b'[{"ph": "X", "pid": 1, "tid": 0, "ts": 0, "dur": 1, "name": "<script>", "args": {"bytes": "<b>"}}]'
    )
    assert "<script>" not in timeline.page(runs)
    assert "<b>" not in timeline.page(runs)

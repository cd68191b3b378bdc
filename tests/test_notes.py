"""Notes are appended and never trusted."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grader import notes
from grader.records import Outcome


def add_run(folder: Path, outcome: str = "failed", first: str = "check_a") -> None:
    """Note one run."""
    assert notes.append(folder, "run", outcome=outcome, first_failure=first, seed=0, passed=1) is None


def test_events_come_back_in_order_with_id_and_time(tmp_path: Path) -> None:
    add_run(tmp_path)
    add_run(tmp_path, "passed", "")
    events, complaints = notes.read(tmp_path)
    assert not complaints
    assert [event["outcome"] for event in events] == ["failed", "passed"]
    assert len({event["id"] for event in events}) == 2
    assert all(event["time"].endswith("+00:00") for event in events)
    assert notes.outcome_of(notes.last_run(events)) is Outcome.PASSED


def test_without_notes_nothing_was_run(tmp_path: Path) -> None:
    assert notes.read(tmp_path) == ([], [])
    assert notes.outcome_of(notes.last_run([])) is Outcome.NOT_RUN
    assert notes.hints_taken([], "check_a") == 1


@pytest.mark.parametrize(
    "line",
    [
        "<<<<<<< HEAD",
        "[]",
        '{"id": 1, "time": "t", "kind": "run"}',
        '{"id": "1", "time": "t", "kind": "run", "outcome": "passed", "first_failure": null, "seed": 0, "passed": 1}',
        '{"id": "1", "time": "t", "kind": "hint", "check": "check_a", "number": true}',
        "[" * 100_000,
        '{"id": ' + "9" * 5000,
        "\udcff",
    ],
)
def test_a_broken_line_is_skipped_with_a_sentence(tmp_path: Path, line: str) -> None:
    add_run(tmp_path)
    with (tmp_path / notes.NAME).open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    add_run(tmp_path)
    events, complaints = notes.read(tmp_path)
    assert len(events) == 2
    assert complaints == [f"Line 2 of {tmp_path.name}/notes.jsonl is no note and was skipped."]


def test_many_broken_lines_cost_few_sentences(tmp_path: Path) -> None:
    (tmp_path / notes.NAME).write_text("?\n" * 100, encoding="utf-8")
    assert notes.read(tmp_path)[1][-1] == f"95 more lines of {tmp_path.name}/notes.jsonl are no notes."


def test_a_kind_of_a_later_version_is_kept(tmp_path: Path) -> None:
    assert notes.append(tmp_path, "guess", value=[1, 2]) is None
    assert notes.read(tmp_path)[0][0]["value"] == [1, 2]


def test_a_line_that_a_merge_doubled_counts_once(tmp_path: Path) -> None:
    add_run(tmp_path)
    path = tmp_path / notes.NAME
    path.write_bytes(path.read_bytes() * 2)
    assert len(notes.read(tmp_path)[0]) == 1


def test_two_runs_at_once_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Each line is one write at the end of the file."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: add_run(tmp_path), range(200)))
    events, complaints = notes.read(tmp_path)  # which skips an empty line, of a writer who met half of another's
    assert (len(events), complaints) == (200, [])


def test_a_line_begins_after_what_an_interrupted_write_left(tmp_path: Path) -> None:
    (tmp_path / notes.NAME).write_bytes(b'{"id": "half')
    add_run(tmp_path)
    events, complaints = notes.read(tmp_path)
    assert (len(events), len(complaints)) == (1, 1)


def test_what_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """A read-only checkout, and what stands in the place of the file."""
    (tmp_path / notes.NAME).mkdir()
    assert "was not written" in (notes.append(tmp_path, "hint", check="check_a", number=2) or "")
    assert "not an ordinary file" in notes.read(tmp_path)[1][0]
    assert "was not written" in (notes.append(tmp_path / "gone", "hint", check="check_a", number=2) or "")


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_notes_are_not_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "profile"
    target.touch()
    (tmp_path / notes.NAME).symlink_to(target)
    assert notes.append(tmp_path, "hint", check="check_a", number=2)
    assert target.read_bytes() == b""


def test_the_furthest_hint_of_a_check_counts(tmp_path: Path) -> None:
    for number in (2, 3, 2):
        notes.append(tmp_path, "hint", check="check_a", number=number)
    events, _ = notes.read(tmp_path)
    assert notes.hints_taken(events, "check_a") == 3
    assert notes.hints_taken(events, "check_b") == 1

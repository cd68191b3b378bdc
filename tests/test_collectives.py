"""Claims about ranks that do not call the same thing, and about ranks that lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.collectives import Collectives
from grader.errors import StudentFailure
from grader.network import Network
from network_scripts import Program, Step, play

# ---- mismatches


def mismatch_of(first: dict[str, Any], second: dict[str, Any]) -> StudentFailure:
    """Return what the books of both transports raise when two ranks post this."""
    books, network = Collectives(), Network(2)
    for rank, fields in enumerate((first, second)):
        network.post(rank, Program(rank, 2).post(**fields)[1])
        network.wait(rank, {"n": 0, "line": 0})
    books.post(0, Program(0, 2).post(**first)[1])
    with pytest.raises(StudentFailure) as at_once:
        books.post(1, Program(1, 2).post(**second)[1])
    with pytest.raises(StudentFailure, match="rank 0 called") as when_all_wait:
        network.advance()
    assert at_once.value.message == when_all_wait.value.message
    return at_once.value


PAIR: dict[str, Any] = {"dtype": "float32", "shape": [2]}
REDUCE = PAIR | {"op": "all_reduce", "data": [bytes(8)], "reduce": "sum", "line": 3}
CAST = PAIR | {"op": "broadcast", "peer": 0, "line": 5}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (CAST, "rank 1 called broadcast (float32 [2] from rank 0, line 5)"),
        (REDUCE | {"reduce": "max"}, "rank 1 called all_reduce (max of float32 [2], line 3)"),
        (REDUCE | {"dtype": "int64"}, "rank 1 called all_reduce (sum of int64 [2], line 3)"),
        (REDUCE | {"shape": [1, 2]}, "rank 1 called all_reduce (sum of float32 [1, 2], line 3)"),
    ],
)
def test_ranks_that_do_not_call_the_same_collective_are_told_so(change: dict[str, Any], words: str) -> None:
    """One sentence names both calls and their lines; the same on both transports."""
    failure = mismatch_of(REDUCE, {"reduce": ""} | change)
    assert failure.kind == "mismatch"
    assert failure.message.startswith(f"rank 0 called all_reduce (sum of float32 [2], line 3) where {words}. All ranks")


def test_a_message_must_fit_the_tensor_that_receives_it() -> None:
    """Gloo would fill a part of it, or abort the process."""
    send = PAIR | {"op": "send", "peer": 1, "data": [bytes(8)], "payload_bytes": 8}
    failure = mismatch_of(send, PAIR | {"op": "recv", "peer": 0, "payload_bytes": 12, "shape": [3]})
    assert "called send (float32 [2] to rank 1) where rank 1 called recv (float32 [3] from rank 0)" in failure.message


def test_the_pair_that_a_mismatch_names_does_not_depend_on_who_was_first() -> None:
    """On the simulated network the lowest ranks are compared, when all wait."""
    words = set()
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        network = Network(3)
        for rank in order:
            network.post(rank, Program(rank, 3).all_reduce(8 + 8 * (rank == 2))[1])
            network.wait(rank, {"n": 0, "line": 0})
        with pytest.raises(StudentFailure) as caught:
            network.advance()
        words.add(caught.value.message)
    assert len(words) == 1
    assert words.pop().startswith("rank 0 called all_reduce (sum of uint8 [8]) where rank 2")


def test_shapes_may_differ_where_ranks_bring_different_parts() -> None:
    """all_to_all moves as many rows as each rank likes."""

    def member(program: Program) -> Iterator[Step]:
        yield program.post("all_to_all", data=[bytes(program.rank), bytes(3)], shape=[program.rank + 3])
        yield program.wait()

    assert play(member, member).calls(1)[0].payload_bytes == 4


@pytest.mark.parametrize("peer", [0, 2])
def test_a_message_to_oneself_or_to_nobody_of_the_group_is_refused(peer: int) -> None:
    """At once, with the way out."""
    with pytest.raises(StudentFailure) as caught:
        Network(3).post(0, Program(0, 2).isend(peer, 4, line=9)[1])
    assert caught.value.kind == "mismatch"
    assert "rank 0 called isend (uint8 [4] to rank" in caught.value.message
    assert caught.value.line == 9


def test_messages_to_a_rank_that_receives_from_any_source_are_not_compared_on_gloo() -> None:
    """Nobody outside gloo knows which message it took."""
    books, zero, one = Collectives(), Program(0, 2), Program(1, 2)
    books.post(1, one.irecv(None, 4)[1])
    books.post(0, zero.isend(1, 4)[1])
    books.post(1, one.irecv(0, 8)[1])
    books.post(0, zero.isend(1, 8)[1])
    assert [call.peer for call in books.calls(1)] == [None, 0]


# ---- ranks that lie

NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["n", "op", "group", "peer", "tag", "reduce", "shape", "dtype", "payload_bytes", "line", "data", "seconds"]
KINDS = ["post", "wait", "compute"]


@settings(max_examples=300, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(FIELDS), NONSENSE, min_size=1, max_size=3), kind=st.sampled_from(KINDS))
def test_nonsense_from_a_rank_is_a_failure_of_its_run_and_nothing_else(changes: dict[str, Any], kind: str) -> None:
    """The trusted process raises one kind of exception, or goes on."""
    network, program = Network(2), Program(0, 2)
    network.post(0, program.all_reduce(8)[1])
    message = program.all_reduce(8)[1] | {"seconds": 1.0} | changes
    with suppress(StudentFailure):
        getattr(network, kind)(0, message)
    network.finish(1)
    with suppress(StudentFailure):
        network.advance()
    network.calls(0)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "1", None])
def test_time_does_not_run_backwards(seconds: object) -> None:
    """A rank cannot compute for less than no time."""
    with pytest.raises(StudentFailure) as caught:
        Network(1).compute(0, {"seconds": seconds})
    assert caught.value.kind == "broken"


def test_a_loop_that_never_waits_cannot_fill_the_trusted_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in flight is bounded; what has arrived is forgotten."""
    monkeypatch.setattr("grader.network.IN_FLIGHT_LIMIT_BYTES", 1000)

    def patient(program: Program) -> Iterator[Step]:
        for _ in range(20):
            yield program.all_reduce(400)
            yield program.wait()

    play(patient, patient)

    def hasty(program: Program) -> Iterator[Step]:
        for _ in range(20):
            yield program.isend(1 - program.rank, 400)

    with pytest.raises(StudentFailure, match="that nobody has waited for"):
        play(hasty, hasty)


def test_a_rank_that_finished_may_be_called_again() -> None:
    """A run may serve several calls of one check."""
    network, programs = Network(2), [Program(0, 2), Program(1, 2)]
    for _ in range(2):
        for rank, program in enumerate(programs):
            network.resume(rank)
            network.post(rank, program.all_reduce(8)[1])
            network.wait(rank, program.wait()[1])
        assert len(network.advance()) == 2
        for rank in (0, 1):
            network.finish(rank)
    assert [call.depth for call in network.calls(0)] == [1, 2]

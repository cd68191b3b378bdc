"""Claims about the simulated network, made with ranks that are generators: no process, no torch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.collectives import Collectives
from grader.errors import StudentFailure
from grader.network import Network
from grader.posts import COLLECTIVES, ring_traffic
from grader.records import Call

Step = tuple[str, dict[str, Any]]
Rank = Generator[Step, dict[str, Any] | None, None]
ALPHA_S, BETA_S = 1.0, 0.01


class Program:
    """Write one rank's steps shortly: every method is one operation, counted from 0."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world, self.count = rank, list(range(world_size)), 0

    def post(self, op: str, **fields: Any) -> Step:
        message = {"is": "post", "n": self.count, "op": op, "group": self.world, "dtype": "uint8", **fields}
        message.setdefault("data", [])
        self.count += 1
        return "post", message

    def isend(self, peer: int, size: int, **fields: Any) -> Step:
        return self.post("isend", peer=peer, data=[bytes(size)], payload_bytes=size, shape=[size], **fields)

    def irecv(self, peer: int | None, size: int, **fields: Any) -> Step:
        return self.post("irecv", peer=peer, payload_bytes=size, shape=[size], **fields)

    def all_reduce(self, size: int, **fields: Any) -> Step:
        return self.post("all_reduce", data=[bytes(size)], shape=[size], reduce="sum", **fields)

    def wait(self, number: int | None = None) -> Step:
        return "wait", {"is": "wait", "n": self.count - 1 if number is None else number, "line": 0}

    @staticmethod
    def compute(seconds: float) -> Step:
        return "compute", {"is": "compute", "seconds": seconds}


Script = Callable[[Program], Iterator[Step]]


def play(*scripts: Script, shuffle: int = 0, alpha_s: float = ALPHA_S, beta_s: float = BETA_S) -> Network:
    """Run one script a rank, in an order drawn from `shuffle`, until all have ended; a deadlock raises."""
    network = Network(len(scripts), alpha_s, beta_s)
    ranks = {rank: _steps(script(Program(rank, len(scripts)))) for rank, script in enumerate(scripts)}
    running, order = dict.fromkeys(ranks), random.Random(shuffle)
    while ranks:
        if running:
            rank = order.choice(sorted(running))
            _step(network, rank, ranks, running)
        else:
            released = network.advance()
            if not released:
                raise StudentFailure("nothing can go on", kind="deadlock")
            running |= dict(released)
    return network


def _steps(script: Iterator[Step]) -> Rank:
    yield from script  # type: ignore[misc]  # a generator, so that what a wait brings could be sent in


def _step(network: Network, rank: int, ranks: dict[int, Rank], running: dict[int, Any]) -> None:
    try:
        kind, message = next(ranks[rank])
    except StopIteration:
        network.finish(rank)
        del ranks[rank], running[rank]
        return
    getattr(network, kind)(rank, message)
    if kind == "wait":
        del running[rank]


def send_once(size: int) -> tuple[Script, Script]:
    """Return a rank that sends to rank 1 and a rank that receives from rank 0."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1, size)
        yield program.wait()

    def receiver(program: Program) -> Iterator[Step]:
        yield program.irecv(0, size)
        yield program.wait()

    return sender, receiver


def ring(program: Program) -> Iterator[Step]:
    """Reduce-scatter and all-gather around the ring, one chunk of 10 bytes a step."""
    p = len(program.world)
    for _ in range(2 * (p - 1)):
        yield program.isend((program.rank + 1) % p, 10)
        yield program.irecv((program.rank - 1) % p, 10)
        yield program.wait(program.count - 1)
        yield program.wait(program.count - 2)


# ---- time


def test_a_message_takes_alpha_and_its_bytes_times_beta() -> None:
    """Both ends go on when it has arrived."""
    network = play(*send_once(50))
    assert [network.clock_s(rank) for rank in (0, 1)] == [1.5, 1.5]
    assert network.calls(1)[0].payload_bytes == 50


def test_messages_out_of_one_rank_follow_each_other() -> None:
    """A rank has one way out: the second message starts when the first has left."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1, 100)
        yield program.isend(2, 100)
        yield program.wait(0)
        yield program.wait(1)

    def receiver(program: Program) -> Iterator[Step]:
        yield program.irecv(0, 100)
        yield program.wait()

    network = play(sender, receiver, receiver)
    assert [network.clock_s(rank) for rank in (0, 1, 2)] == [4.0, 2.0, 4.0]


def test_a_rank_sends_and_receives_at_once() -> None:
    """The port is full-duplex: two ranks exchange in the time of one message."""

    def exchange(program: Program) -> Iterator[Step]:
        yield program.isend(1 - program.rank, 100)
        yield program.irecv(1 - program.rank, 100)
        yield program.wait(0)
        yield program.wait(1)

    network = play(exchange, exchange)
    assert [network.clock_s(rank) for rank in (0, 1)] == [2.0, 2.0]


def test_a_collective_starts_when_its_last_member_arrives() -> None:
    """Who comes early waits; the ring's time comes on top."""

    def member(program: Program) -> Iterator[Step]:
        yield program.compute(10.0 * program.rank)
        yield program.all_reduce(100)
        yield program.wait()

    network = play(member, member)
    assert network.clock_s(0) == network.clock_s(1) == 10.0 + 2 * (1.0 + 50 * 0.01)


def test_collectives_in_flight_share_the_wire_in_launch_order() -> None:
    """Ready at 9 and 10, taking 8 and 2 seconds, they end at 17 and 19."""

    def member(program: Program) -> Iterator[Step]:
        yield program.compute(9.0)
        yield program.all_reduce(8, is_async=True)
        yield program.compute(1.0)
        yield program.all_reduce(1, is_async=True)
        yield program.wait(0)
        yield program.wait(1)

    network = play(member, member, alpha_s=0.0, beta_s=1.0)
    first, second = network.calls(0)
    assert (first.start_s, first.end_s) == (9.0, 17.0)
    assert (second.start_s, second.end_s) == (17.0, 19.0)


def test_virtual_time_passes_only_where_a_rank_computes_or_communicates() -> None:
    """A rank that computes while its message travels loses no time."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1, 100)
        yield program.compute(5.0)
        yield program.wait()

    network = play(sender, send_once(100)[1])
    assert [network.clock_s(rank) for rank in (0, 1)] == [5.0, 2.0]


@pytest.mark.parametrize("op", sorted(COLLECTIVES))
def test_one_rank_alone_pays_nothing(op: str) -> None:
    """No bytes, no seconds, no rounds."""
    assert ring_traffic(op, 1, 1000) == (0, 0)

    def alone(program: Program) -> Iterator[Step]:
        yield program.post(op, peer=0, data=[] if op == "barrier" else [bytes(8)], shape=[8])
        yield program.wait()

    network = play(alone)
    assert network.clock_s(0) == network.calls(0)[0].ring_bytes == network.calls(0)[0].depth == 0


@pytest.mark.parametrize(
    ("op", "messages", "sent_bytes"),
    [
        ("all_reduce", 6, 6 * 26), ("reduce_scatter", 3, 3 * 26), ("all_gather", 3, 303), ("broadcast", 3, 101),
        ("reduce", 3, 101), ("scatter", 3, 3 * 26), ("gather", 3, 303), ("all_to_all", 3, 3 * 26), ("barrier", 6, 0),
    ],
)  # fmt: skip
def test_a_ring_of_four_costs_what_the_table_says(op: str, messages: int, sent_bytes: int) -> None:
    """101 bytes do not divide by 4: parts are rounded up."""
    assert ring_traffic(op, 4, 101) == (messages, sent_bytes)


# ---- rounds, bytes


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8])
def test_a_ring_of_messages_has_the_rounds_bytes_and_time_of_the_formula(p: int) -> None:
    """2(p-1) rounds of alpha + n/p beta, and so many bytes out of each rank."""
    network = play(*[ring] * p)
    for rank in range(p):
        calls = network.calls(rank)
        assert max(call.depth for call in calls) == 2 * (p - 1)
        assert sum(call.ring_bytes for call in calls) == 2 * (p - 1) * 10
        assert network.clock_s(rank) == pytest.approx(2 * (p - 1) * 1.1)


def test_messages_that_do_not_wait_for_each_other_are_one_round() -> None:
    """Depth counts dependence, not messages."""

    def sender(program: Program) -> Iterator[Step]:
        for _ in range(5):
            yield program.isend(1, 1)
        for number in range(5):
            yield program.wait(number)

    def receiver(program: Program) -> Iterator[Step]:
        for _ in range(5):
            yield program.irecv(0, 1)
        for number in range(5):
            yield program.wait(number)

    assert {call.depth for call in play(sender, receiver).calls(1)} == {1}


def test_a_collective_is_one_link_of_the_chain() -> None:
    """Three, one after another, are three rounds."""

    def member(program: Program) -> Iterator[Step]:
        for _ in range(3):
            yield program.all_reduce(4)
            yield program.wait()

    assert [call.depth for call in play(member, member, member).calls(2)] == [1, 2, 3]


def test_bytes_are_counted_from_the_data_whatever_a_rank_claims() -> None:
    """A rank cannot talk its traffic down."""

    def member(program: Program) -> Iterator[Step]:
        yield program.all_reduce(100, payload_bytes=1)
        yield program.wait()

    assert play(member, member).calls(0)[0].payload_bytes == 100


# ---- what decides


def test_two_sends_without_a_receive_are_a_deadlock() -> None:
    """A send is a rendezvous; it is found the moment the last rank begins to wait."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1 - program.rank, 1)
        yield program.wait()

    with pytest.raises(StudentFailure) as caught:
        play(sender, sender)
    assert caught.value.kind == "deadlock"


def test_a_rank_that_has_returned_leaves_the_others_in_a_deadlock() -> None:
    """Its call will never come."""

    def member(program: Program) -> Iterator[Step]:
        if program.rank:
            yield program.all_reduce(1)
            yield program.wait()

    with pytest.raises(StudentFailure):
        play(member, member)


def test_the_operation_in_which_a_rank_waits_has_a_name() -> None:
    """So that a hang can be told in words."""
    network, program = Network(2), Program(0, 2)
    network.post(0, program.all_reduce(8, line=12)[1])
    assert network.waiting(0) is None
    network.wait(0, program.wait()[1])
    waiting = network.waiting(0)
    assert waiting is not None
    assert (waiting["op"], waiting["line"]) == ("all_reduce", 12)
    assert not network.blocked
    network.finish(1)
    assert network.blocked
    assert network.advance() == []


def test_messages_of_another_tag_or_group_do_not_meet() -> None:
    """A tag, a group and a direction make a channel."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.isend(1, 1, tag=7)
        yield program.isend(1, 2, tag=8)
        yield program.isend(1, 3, group_name="other")
        for number in range(3):
            yield program.wait(number)

    def receiver(program: Program) -> Iterator[Step]:
        yield program.irecv(0, 3, group_name="other")
        yield program.irecv(0, 2, tag=8)
        yield program.irecv(0, 1, tag=7)
        for number in range(3):
            yield program.wait(number)

    assert [call.payload_bytes for call in play(sender, receiver).calls(1)] == [3, 2, 1]


@pytest.mark.parametrize("shuffle", range(10))
def test_a_receive_from_any_source_takes_what_is_first_in_virtual_time(shuffle: int) -> None:
    """Not what the operating system happened to deliver first."""

    def sender(program: Program) -> Iterator[Step]:
        yield program.compute(10.0 / program.rank)
        yield program.isend(0, program.rank)
        yield program.wait()

    def receiver(program: Program) -> Iterator[Step]:
        for size in (3, 2, 1):
            yield program.irecv(None, size)
            yield program.wait()

    assert [call.peer for call in play(receiver, sender, sender, sender, shuffle=shuffle).calls(0)] == [3, 2, 1]


def scramble(rng: random.Random) -> Script:
    """Return a program of rings, collectives and computing that is correct on any number of ranks."""
    plan = [(rng.choice(["ring", "reduce", "compute", "shift"]), rng.randrange(1, 50)) for _ in range(6)]

    def member(program: Program) -> Iterator[Step]:
        p = len(program.world)
        for kind, size in plan:
            if kind == "ring":
                yield from ring(program)
            elif kind == "reduce":
                yield program.all_reduce(size, is_async=True)
                yield program.compute(0.1 * size * (program.rank + 1))
                yield program.wait()
            elif kind == "compute":
                yield program.compute(size * ((program.rank * 7) % 5))
            else:
                yield program.isend((program.rank + 1) % p, size)
                yield program.irecv(None, size)
                yield program.wait(program.count - 1)
                yield program.wait(program.count - 2)

    return member


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), p=st.integers(2, 5), shuffle=st.integers(1, 10**6))
def test_how_fast_processes_run_changes_nothing(seed: int, p: int, shuffle: int) -> None:
    """Clocks, depth, order, peers and bytes are those of the program alone."""

    def outcome(shuffle: int) -> list[tuple[float, tuple[Call, ...]]]:
        network = play(*[scramble(random.Random(seed))] * p, shuffle=shuffle)
        return [(network.clock_s(rank), network.calls(rank)) for rank in range(p)]

    assert outcome(0) == outcome(shuffle)


def test_no_operation_overlaps_another_on_the_same_port() -> None:
    """Whatever the program, a way out or in carries one message at a time."""
    network = play(*[scramble(random.Random(5))] * 4)
    for rank in range(4):
        sent = sorted((call.start_s, call.end_s) for call in network.calls(rank) if call.op != "irecv")
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(sent))


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
FIELDS = "n op group group_name peer tag reduce shape dtype payload_bytes line data seconds".split()
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

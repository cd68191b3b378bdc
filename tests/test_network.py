"""Claims about time, bytes, rounds and order on the simulated network."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.errors import StudentFailure
from grader.network import Network
from grader.posts import COLLECTIVES, ring_traffic
from grader.records import Call
from network_scripts import Program, Script, Step, play, ring, send_once

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

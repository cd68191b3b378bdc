"""Hidden checks of ring_all_reduce, in teaching order: values, then the input, then what the network saw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

WORLD, MESSAGES = Group(), {"send", "isend", "recv", "irecv"}


def assert_sums(student: Student, vectors: Sequence[np.ndarray[Any, Any]]) -> None:
    """Give rank r row r of each array and compare what `ring_all_reduce` returns on every rank with the sum of rows."""
    per_rank = [([tensor(rows[rank]) for rows in vectors],) for rank in range(len(vectors[0]))]
    for result in student.simulated("harness.sums", per_rank, common=(WORLD,)):
        for rows, actual in zip(vectors, result.value, strict=True):
            what = f"p = {len(rows)}, n = {rows.shape[1]}, rank {result.rank}: sum"
            mistakes = {"this rank's own vector": rows[result.rank], "twice the sum": 2 * rows.sum(axis=0)}
            assert_close(actual, tensor(rows.sum(axis=0)), what, mistakes=mistakes)


def reduced(student: Student, rng: np.random.Generator, groups: Sequence[Sequence[int]]) -> list[RankResult]:
    """Run each rank in its group, on 1000 float32 numbers, and return what the network saw of it."""
    per_rank = [(tensor(rng.normal(size=1000), "float32"), Group(tuple(group))) for group in groups]
    return student.simulated("ring_all_reduce", per_rank)


@check(
    hints=("How often do your loops run on one rank? With p ranks each phase has p - 1 rounds, and one rank none.",),
)
def check_one_rank_is_silent(student: Student, rng: np.random.Generator) -> None:
    """One rank alone returns its own vector, in its shape and dtype, and sends nothing."""
    vector = tensor(rng.normal(size=5), "float32")
    [result] = student.simulated("ring_all_reduce", [(vector, WORLD)])
    assert_close(result.value, vector, "one rank: sum")
    assert not result.calls, f"One rank has nobody to talk to, yet it called {result.calls[0].op}."


@check(
    hints=(
        "Draw both ranks: who sends which half in each of the two rounds, and is what arrives added or copied?",
        "Everyone sends at once: if each waits for its send before it posts a receive, nobody ever receives.",
    )
)
def check_two_ranks_add_up(student: Student) -> None:
    """Two ranks end with the sum of their vectors, and neither waits for ever."""
    assert_sums(student, [np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]])])


@check(
    hints=(
        "With two ranks left and right are the same rank, and i and -i the same chunk. With three they are not.",
        "Write down for three ranks which chunk each sends in each round. It is always the one that has just arrived.",
        "After the first phase a rank holds one complete chunk. Which one? The second phase has to begin with it.",
    )
)
def check_more_ranks_add_up(student: Student, rng: np.random.Generator) -> None:
    """Three and eight ranks end with the sum of all vectors."""
    for world_size in (3, 8):
        assert_sums(student, [rng.integers(-9, 10, size=(world_size, 2 * world_size)).astype(np.float64)])


@check(
    hints=(
        "Print how long your chunks of 5 elements are on 4 ranks. Are they 4, some empty if need be, and 5 in all?",
        "torch.chunk may return fewer pieces than asked for, n // p forgets the tail. torch.tensor_split does neither.",
    )
)
def check_any_length_adds_up(student: Student, rng: np.random.Generator) -> None:
    """The sum is right for 0, 1, p - 1, p, p + 1 and 1000 elements on every number of ranks."""
    for world_size in (2, 3, 5):
        lengths = (0, 1, world_size - 1, world_size, world_size + 1, 1000)
        assert_sums(student, [rng.normal(size=(world_size, length)) for length in lengths])


@check(
    hints=("Chunks are views: adding to one adds to the tensor it was cut from. Cut a copy of the vector.",),
    judged_by="observation",
)
def check_the_vector_is_left_alone(student: Student, rng: np.random.Generator) -> None:
    """After the call each rank's own vector holds what it held before."""
    rows = rng.normal(size=(3, 7))
    for result in student.simulated("ring_all_reduce", [(tensor(row), WORLD) for row in rows], with_arguments=True):
        assert_close(result.arguments[0], tensor(rows[result.rank]), f"rank {result.rank}: its own vector", rtol=0)


@check(
    hints=(
        "How often does a rank send a whole vector? What part of it does its neighbour need, and in what form?",
        "Cut the vector into p chunks, and let all of them travel at once, each one rank behind the next.",
        "First pass partial sums round, chunk by chunk, until each rank has one complete chunk; then pass those round.",
    ),
    judged_by="network",
)
def check_no_rank_moves_more_than_its_share(student: Student, rng: np.random.Generator) -> None:
    """No rank sends or receives more than 2 (p - 1) chunks of a p-th of the vector."""
    for world_size in (3, 5):
        chunk = -(-1000 // world_size)
        most = 2 * (world_size - 1) * chunk * 4
        for result in reduced(student, rng, [range(world_size)] * world_size):
            moved, verb = max((result.sent_bytes, "sent"), (result.received_bytes, "received"))
            whole = f"\nthat is the whole vector {moved // 4000} times" if moved % 4000 == 0 else ""
            allowed = f"at most {most:,}: {2 * (world_size - 1)} chunks of {chunk} numbers.{whole}"
            who = f"rank {result.rank} of {world_size}"
            assert moved <= most, f"{who} {verb} {moved:,} bytes for a vector of 4,000, expected {allowed}"


@check(
    hints=(
        "Whom does each rank talk to? In a ring there are two.",
        "A collective does its own sending. Build yours from isend and irecv, to the right and from the left.",
    ),
    judged_by="network",
)
def check_each_rank_talks_to_its_neighbours_only(student: Student, rng: np.random.Generator) -> None:
    """Every rank exchanges messages with the two next to it in its group, with nobody else and by no other means."""
    ring, pair = (0, 1, 3, 4), (2, 5)
    for result in reduced(student, rng, [pair if rank in pair else ring for rank in range(6)]):
        others, group = {call.op for call in result.calls} - MESSAGES, pair if result.rank in pair else ring
        who, place = f"rank {result.rank} of the group {list(group)}", group.index(result.rank)
        assert not others, f"{who} called {', '.join(sorted(others))}, expected messages such as isend and irecv only."
        talked, neighbours = sorted(result.peers), sorted({group[place - 1], group[(place + 1) % len(group)]})
        assert talked == neighbours, f"{who} talked to ranks {talked}, expected its neighbours {neighbours}."


@check(
    hints=("Who is idle while another one sends? Let all chunks travel at once, each one rank behind the next.",),
    judged_by="network",
)
def check_all_chunks_travel_at_once(student: Student, rng: np.random.Generator) -> None:
    """The longest chain of messages that wait for each other has 2 (p - 1) links."""
    rounds = max(result.rounds for result in reduced(student, rng, [range(4)] * 4))
    assert rounds <= 6, f"On 4 ranks {rounds} messages wait for each other, one after another, expected at most 6."


@check(
    hints=("a + (b + c) and (a + b) + c differ in their last bits. Add each element up on one rank and copy the sum.",),
    guards="bits that are equal on all ranks, and the real transport",
)
def check_real_ranks_hold_the_same_bits(student: Student, rng: np.random.Generator) -> None:
    """Four real ranks end with the sum of 1001 elements, and all of them with the same bits."""
    rows = rng.normal(size=(4, 1001))
    results = student.ranks("ring_all_reduce", [(tensor(row), WORLD) for row in rows])
    for result in results:
        assert_close(result.value, tensor(rows.sum(axis=0)), f"rank {result.rank}: sum")
        differ = int(np.sum(result.value.array != results[0].value.array))
        assert differ == 0, f"{differ} of 1001 sums on rank {result.rank} have other bits than those on rank 0."

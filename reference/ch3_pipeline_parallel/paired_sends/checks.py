"""Hidden checks of paired_sends, in teaching order: one way, both ways, chains, several messages, rings, resources."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader import schedules
from grader.judging import RankResult, Student, StudentFailure, assert_close, check, tensor

Plan = list[tuple[int, int, np.ndarray[Any, Any]]]  # messages: from, to, what


def both_ways(pairs: list[tuple[int, int]], rng: np.random.Generator, rows: int = 2) -> Plan:
    """Return an activation from the first rank of each pair to the second, and a gradient back."""
    ends = [end for pair in pairs for end in (pair, pair[::-1])]
    return [(source, target, rng.normal(size=(rows, 3)).round(3)) for source, target in ends]


def assert_exchanged(student: Student, world_size: int, plan: Plan, *, gloo: bool = False) -> list[RankResult]:
    """Exchange these messages and compare what each rank received; return the results."""
    sends: list[list[Any]] = [[] for _ in range(world_size)]
    rooms: list[list[Any]] = [[] for _ in range(world_size)]
    expected: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(world_size)]
    for source, target, array in plan:
        sends[source].append((target, tensor(array)))
        rooms[target].append((source, list(array.shape)))
        expected[target].append(array)
    per_rank = list(zip(sends, rooms, strict=True))
    try:
        results = (student.ranks if gloo else student.simulated)("harness.exchange", per_rank)
    except StudentFailure as failure:
        raise drawn(failure) from None
    for rank, result in enumerate(results):
        for place, (array, (source, _)) in enumerate(zip(expected[rank], rooms[rank], strict=True)):
            known = {"what the room held before: nothing had come when exchange returned": np.full_like(array, np.nan)}
            others = enumerate(expected[rank])
            known |= {f"what room {i} should hold": other for i, other in others if i != place}
            where = f"rank {rank} of {world_size}: room {place}, for what comes from rank {source}"
            assert_close(result.value[place], tensor(array), where, mistakes=known)
    return results


def drawn(failure: StudentFailure) -> StudentFailure:
    """Return the failure, and if it is a deadlock the circle of ranks that wait for each other drawn below it."""
    circle = schedules.draw_cycle(schedules.message_waits(failure.message)) if failure.kind == "deadlock" else ""
    words = "\n".join(filter(None, (failure.message, circle)))
    return StudentFailure(words, kind=failure.kind, rank=failure.rank, line=failure.line, output=failure.output)


@check(
    hints=(
        "One rank sends, the other receives. Does each do its part, and has the room been filled when you return?",
        "An asynchronous receive has only begun. Wait for it before you return.",
    )
)
def check_one_way(student: Student, rng: np.random.Generator) -> None:
    """An activation travels from one stage to the next."""
    for ends in ((0, 1), (1, 0)):
        assert_exchanged(student, 2, [(*ends, rng.normal(size=(2, 3)).round(3))])


@check(
    hints=(
        "Read the two lines of the circle. Which of the two could begin with something else?",
        "A blocking send returns when the other side receives. Here the other side is in a send of its own.",
        "Begin every operation before you wait for any, or let one side of each pair receive first.",
    )
)
def check_two_ranks_send_to_each_other(student: Student, rng: np.random.Generator) -> None:
    """Two stages send to each other at the same time, and both go on."""
    assert_exchanged(student, 2, both_ways([(0, 1)], rng))
    assert_exchanged(student, 2, both_ways([(1, 0)], rng))


@check(
    hints=(
        "A stage in the middle has two partners. With whom does it deal first, and what does that one do meanwhile?",
        "What tells two messages apart must be the same on both sides: places in your two lists are not.",
    )
)
def check_stages_in_the_middle(student: Student, rng: np.random.Generator) -> None:
    """Pipelines of three and four stages exchange with both neighbours at once."""
    for world_size in (3, 4):
        assert_exchanged(student, world_size, both_ways([(rank, rank + 1) for rank in range(world_size - 1)], rng))


@check(
    hints=(
        "Messages between two ranks overtake nobody: the first sent is the first received.",
        "Post sends and receives in the order of the lists, the last micro-batch, which is smaller, included.",
    )
)
def check_each_micro_batch_lands_in_its_room(student: Student, rng: np.random.Generator) -> None:
    """Several micro-batches at once, the last one smaller, each fill the room that is theirs."""
    plan = [message for rows in (2, 2, 1) for message in both_ways([(0, 1)], rng, rows)]
    assert_exchanged(student, 2, plan)
    assert_exchanged(student, 3, plan + [message for rows in (3, 1) for message in both_ways([(1, 2)], rng, rows)])


@check(
    hints=(
        "With interleaved chunks the last rank also sends to the first: the chain becomes a ring.",
        "In a ring of three, two even ranks are neighbours. Who of them receives first?",
    )
)
def check_rings_too(student: Student, rng: np.random.Generator) -> None:
    """Rings of two, three and five ranks exchange in both directions."""
    for world_size in (2, 3, 5):
        assert_exchanged(student, world_size, both_ways([(r, (r + 1) % world_size) for r in range(world_size)], rng))
        ring = [(r, (r + 1) % world_size, rng.normal(size=(1, 3))) for r in range(world_size)]
        assert_exchanged(student, world_size, ring)


@check(
    hints=(
        "When exchange returns, the caller writes the next micro-batch into the same tensors. May it?",
        "Keep what isend and irecv return, all of them, and wait for each.",
    ),
    judged_by="network",
)
def check_nothing_is_under_way_afterwards(student: Student, rng: np.random.Generator) -> None:
    """When exchange returns, every operation is complete and the tensors are the caller's again."""
    for result in assert_exchanged(student, 3, both_ways([(0, 1), (1, 2), (0, 1)], rng)):
        for call in result.calls:
            where = f"rank {result.rank}: {call.op} with rank {call.peer} (line {call.line})"
            assert call.completed, f"{where} is still under way when exchange returns, expected it to be waited for."


@check(hints=("Both sides know the shape: the room has it. What else do you send?",), judged_by="network")
def check_one_message_a_tensor(student: Student, rng: np.random.Generator) -> None:
    """Every tensor is one message of its own size, and there is no other communication."""
    plan = both_ways([(0, 1), (1, 2)], rng)
    for result in assert_exchanged(student, 3, plan):
        sent = sum(array.nbytes for source, _, array in plan if source == result.rank)
        number = sum(result.rank in (source, target) for source, target, _ in plan)
        fact = f"rank {result.rank}: {len(result.calls)} operations and {result.sent_bytes} bytes sent"
        assert (len(result.calls), result.sent_bytes) == (number, sent), f"{fact}, expected {number} and {sent}."


@check(hints=("The simulated ranks are content. What do you rely on that real ones do not do?",), guards="gloo")
def check_real_ranks(student: Student, rng: np.random.Generator) -> None:
    """The same holds for two and three real ranks on gloo."""
    for world_size in (2, 3):
        pairs = [(rank, (rank + 1) % world_size) for rank in range(world_size)]
        assert_exchanged(student, world_size, both_ways(pairs, rng), gloo=True)

"""Hidden checks of one_forward_one_backward, in teaching order: the lists, then together, memory, time, real work."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader import schedules
from grader.judging import Student, assert_close, check, describe, tensor

Rows = list[list[str]]
SIZES = [(ranks, m) for ranks in range(1, 9) for m in range(1, 17)]


def tables(student: Student, sizes: list[tuple[int, int]]) -> list[tuple[str, int, int, Rows]]:
    """Return, for each size, words for it, the size, and the lists of all ranks once each is known to be one."""
    found: list[tuple[str, int, int, Rows]] = []
    for (ranks, m), rows in zip(sizes, student.call("harness.tables", sizes).value, strict=True):
        where = f"{ranks} rank{'s' * (ranks > 1)}, {m} micro-batch{'es' * (m > 1)}"
        for rank, row in enumerate(rows):
            assert isinstance(row, list), f"{where}: the schedule of rank {rank} is {describe(row)}, expected a list."
        for rank, row in enumerate(rows):
            if fault := schedules.first_fault(row, rank, m):
                place, why = fault
                raise AssertionError(f"{where}: rank {rank}, {why}.\n{schedules.draw_fault(rows, rank, place)}")
        found.append((where, ranks, m, rows))
    return found


def assert_finished(where: str, rows: Rows) -> None:
    """Fail if ranks wait for each other, with a drawing of how."""
    done = schedules.run(rows)
    assert not done.waits, f"{where}: deadlock, ranks wait for each other.\n{schedules.draw_deadlock(rows, done)}"


@check(
    hints=(
        "Read one rank's list aloud. Is every micro-batch there twice, first forward, then backward?",
        "Warm-up, steady phase, cool-down: the backwards that the warm-up left over come last, the oldest first.",
    )
)
def check_every_rank_does_all_the_work(student: Student) -> None:
    """Each list holds every forward and every backward once, each kind in the order of the micro-batches."""
    tables(student, [(1, 1), (1, 4), (2, 3), (3, 5), (4, 4)])


@check(
    hints=(
        "Two ranks: which one can go backward first? What must the other have done until then?",
        "Rank 0 gets its first gradient from rank 1, rank 1 makes its own. Who has to run ahead of whom?",
        "A rank runs ahead for the ranks behind it, not for those before it.",
    )
)
def check_two_ranks_finish(student: Student) -> None:
    """Two ranks never wait for each other in a circle."""
    for where, _, _, rows in tables(student, [(2, m) for m in (2, 4, 7)]):
        assert_finished(where, rows)


@check(
    hints=(
        "With two micro-batches on four ranks, how many forwards can the warm-up have?",
        "The warm-up is never longer than the micro-batches there are; then the steady phase is empty.",
    )
)
def check_every_pipeline_finishes(student: Student) -> None:
    """Pipelines of 1 to 8 ranks finish with 1 to 16 micro-batches, fewer than ranks included."""
    for where, _, _, rows in tables(student, SIZES):
        assert_finished(where, rows)


@check(
    hints=(
        "Count in your list: one up at each F, one down at each B. Where is the highest point, and what is it there?",
        "The last rank can go backward at once: it never holds more than one. And the one before it?",
        "Rank r holds one for itself and one for each rank behind it. Fewer leave it idle, more cost memory.",
    )
)
def check_no_more_in_flight_than_ranks_behind(student: Student) -> None:
    """At its peak rank r of p holds the activations of min(m, p - r) micro-batches."""
    for where, ranks, m, rows in tables(student, SIZES):
        for rank, row in enumerate(rows):
            held, allowed = schedules.in_flight(row), min(m, ranks - rank)
            too_many = next((place for place, count in enumerate(held) if count > allowed), None)
            first_backward = next(place for place, action in enumerate(row) if "B" in action)
            place = first_backward if too_many is None else too_many
            fact = f"{where}: rank {rank} holds activations of {max(held)} at its peak, expected {allowed}"
            why = "its first backward comes too early" if too_many is None else f"{row[place]} is one too many"
            assert max(held) == allowed, f"{fact}; {why}.\n{schedules.draw_fault(rows, rank, place)}"


@check(
    hints=(
        "Look for dots in the middle of the grid: who waits there, and for what?",
        "Once the first gradient has come, forward and backward take turns, so that the neighbours always have work.",
    )
)
def check_no_slower_than_gpipe(student: Student) -> None:
    """A step takes (m + p - 1)(F + B), whether a backward takes as long as a forward or twice as long."""
    for backward in (1, 2):
        for where, ranks, m, rows in tables(student, SIZES):
            took, best = schedules.run(rows, {"F": 1, "B": backward}).end, (m + ranks - 1) * (1 + backward)
            if took != best:
                grid = schedules.draw(schedules.by_time(rows, schedules.run(rows)))
                fact = f"{where}: a step takes {took:.0f} forwards' time, expected {best} (a backward takes {backward})"
                raise AssertionError(f"{fact}.\n{grid}")


@check(
    hints=("The order is right. Does the list name the micro-batches as the README does, and stage r on rank r?",),
    guards="the order drives real ranks, whose gradients come out right",
)
def check_ranks_train_by_the_schedule(student: Student, rng: np.random.Generator) -> None:
    """Ranks that exchange activations and gradients in this order get the gradient of the whole batch."""
    for ranks, m in ((3, 4), (2, 1)):
        weights, xs = rng.normal(size=(ranks, 2, 2)), rng.normal(size=(m, 3, 2))
        inputs: list[Any] = [xs.reshape(-1, 2)]
        for weight in weights:
            inputs.append(inputs[-1] @ weight)
        gradient, expected = inputs[-1], []
        for weight, x in zip(weights[::-1], inputs[-2::-1], strict=True):
            expected.insert(0, x.T @ gradient)
            gradient = gradient @ weight.T
        per_rank = [(tensor(weight), list(map(tensor, xs))) for weight in weights]
        for result in student.simulated("harness.trained", per_rank):
            where = f"{ranks} ranks, {m} micro-batches: rank {result.rank}: gradient of the weight"
            assert_close(result.value, tensor(expected[result.rank]), where)

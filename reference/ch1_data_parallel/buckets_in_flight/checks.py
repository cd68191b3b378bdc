"""Hidden checks of buckets_in_flight, in teaching order: one bucket, several, packing, order, unused, steps, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
Backward = Sequence[tuple[int, float]]  # the parameters in the order in which they become ready, seconds for each
ALPHA_S, BETA = 2e-6, 1e-9


def play(
    student: Student, rng: np.random.Generator, sizes: list[int], cap_bytes: int, steps: Sequence[Sequence[Backward]]
) -> list[RankResult]:
    """Play steps, given by rank, and compare every gradient on every rank with the mean over the ranks."""
    ranks = range(len(steps[0]))
    drawn = [[{n: rng.normal(size=sizes[n]) for n, _ in backward} for backward in step] for step in steps]
    per_rank = []
    for rank in ranks:
        own = [[(n, tensor(drawn[i][rank][n]), s) for n, s in step[rank]] for i, step in enumerate(steps)]
        per_rank.append((own, sizes, cap_bytes, Group()))
    results = student.simulated("harness.averaged", per_rank, alpha_s=ALPHA_S, beta_s_per_byte=BETA)
    for result in results:
        for i, gradients in enumerate(drawn):
            for n, size in enumerate(sizes):
                total = sum((own.get(n, np.zeros(size)) for own in gradients), np.zeros(size))
                got, used = result.value[i][n], any(n in own for own in gradients)
                if got is None and not used:
                    continue
                users = sum(n in own for own in gradients)
                mistakes: dict[str, Any] = {"the sum over the ranks": total, "this rank's own": gradients[result.rank].get(n)}
                mistakes |= {"the mean over the ranks that used it": total / max(1, users)}
                known = {name: value for name, value in mistakes.items() if value is not None}
                what = f"{len(ranks)} ranks, step {i + 1}: rank {result.rank}: gradient of parameter {n}"
                assert_close(got, tensor(total / len(ranks)), what, mistakes=known)
    return results


def backward_of(sizes: Sequence[int], seconds: float = 1e-6) -> Backward:
    """Return a backward that reaches every parameter, the last one first."""
    return [(n, seconds) for n in reversed(range(len(sizes)))]


def packed(sizes: Sequence[int], cap_bytes: int) -> list[int]:
    """Return the bytes of each bucket."""
    buckets: list[int] = []
    for size_bytes in (8 * size for size in reversed(sizes)):
        if buckets and buckets[-1] + size_bytes <= cap_bytes:
            buckets[-1] += size_bytes
        else:
            buckets.append(size_bytes)
    return buckets


@check(
    hints=(
        "An asynchronous all-reduce has begun when the call returns. When may you touch its tensor again?",
        "Divide before the tensor is on its way, or after wait() has brought it back; never in between.",
    )
)
def check_one_bucket_brings_the_mean(student: Student, rng: np.random.Generator) -> None:
    """With one bucket for all, every rank ends with the mean of all ranks' gradients."""
    for ranks in (1, 2, 3):
        play(student, rng, [3, 2], 1024, [[backward_of([3, 2])] * ranks])


@check(
    hints=(
        "Each bucket has a handle of its own. Has every one of them been waited for before its tensor is read?",
        "Until wait() returns, a bucket's tensor holds nothing that you may use.",
    )
)
def check_every_bucket_is_waited_for(student: Student, rng: np.random.Generator) -> None:
    """With several buckets every parameter has its mean, on 2, 3 and 4 ranks."""
    for ranks in (2, 3, 4):
        play(student, rng, [4, 1, 3, 2, 5], 40, [[backward_of(range(5))] * ranks])


@check(
    hints=(
        "Which parameters does backward reach first, and how many bytes has one of their numbers?",
        "Begin at the end; open a new bucket when the next parameter would not fit. A larger one travels alone.",
    ),
    judged_by="network",
)
def check_buckets_are_packed_from_the_end(student: Student, rng: np.random.Generator) -> None:
    """All-reduces carry the buckets of the contract: filled from the last parameter on, up to the cap in bytes."""
    for sizes, cap_bytes in (([4, 1, 3, 2, 5], 40), ([2, 2, 2, 2], 32), ([1, 9, 1, 1], 24), ([7], 8), ([3, 3, 3], 8)):
        expected = packed(sizes, cap_bytes)
        for result in play(student, rng, sizes, cap_bytes, [[backward_of(sizes)] * 2]):
            sent = [call.payload_bytes for call in result.calls if call.op == "all_reduce"]
            known = {"one all-reduce for every parameter": [8 * size for size in reversed(sizes)], "one for all": [8 * sum(sizes)]}
            known["buckets packed from the first parameter on"] = packed(sizes[::-1], cap_bytes)
            what = f"parameters of {sizes} float64 numbers, buckets of {cap_bytes} bytes: the bytes that rank {result.rank} sent"
            mistakes = {name: value for name, value in known.items() if value != expected}
            assert_equal(str(sent), str(expected), what, mistakes={name: str(value) for name, value in mistakes.items()})


@check(
    hints=(
        "On rank 0 parameter 2 is ready first, on rank 1 parameter 0. Whose buckets meet in the first all-reduce?",
        "Collectives are matched by their order. Let a full bucket wait until those before it have been launched.",
    )
)
def check_all_ranks_launch_in_one_order(student: Student, rng: np.random.Generator) -> None:
    """Whatever order gradients become ready in on each rank, buckets meet their equals."""
    orders = [[2, 1, 0], [0, 1, 2], [1, 2, 0], [0, 2, 1]]
    for ranks in (2, 3, 4):
        play(student, rng, [3, 3, 3], 24, [[[(n, 1e-6) for n in order] for order in orders[:ranks]]])
    play(student, rng, [2, 1, 2, 1], 24, [[[(n, 1e-6) for n in order] for order in ([3, 2, 1, 0], [0, 2, 1, 3])]])


@check(
    hints=(
        "A rank whose batch did not use a parameter never calls ready for it. Who sends its bucket?",
        "finish launches what is left, in order, with zeros where a gradient is missing.",
    )
)
def check_unused_parameters_hold_nobody_up(student: Student, rng: np.random.Generator) -> None:
    """A parameter that a rank did not use counts as zero, and its bucket travels all the same."""
    for used in ([[2, 1, 0], [2, 0]], [[2], [1], [0]], [[2, 1, 0], [], [1]], [[2, 0], [2, 0]]):
        for cap_bytes in (24, 48):
            play(student, rng, [3, 3, 3], cap_bytes, [[[(n, 1e-6) for n in own] for own in used]])


@check(
    hints=(
        "The second step begins like the first. What does your object still remember of the one before?",
        "After finish nothing is in flight and every parameter is missing again.",
    )
)
def check_every_step_begins_anew(student: Student, rng: np.random.Generator) -> None:
    """Three steps with the same buckets each bring their own means, also after unused parameters."""
    full, partial = backward_of([3, 3, 3]), [(2, 1e-6), (0, 1e-6)]
    play(student, rng, [3, 3, 3], 48, [[full, partial], [full, full], [partial, full]])


def arrival_s(sizes: list[int], cap_bytes: int, backwards: Sequence[Backward], sequential: bool = False) -> float:
    """Return when the last bucket has arrived: t_i = max(t_(i-1), when all ranks have launched it) + its time."""
    p, t = len(backwards), 0.0
    number, bucket_of, packed_bytes = 0, {}, packed(sizes, cap_bytes)
    for n, filled in zip(reversed(range(len(sizes))), np.cumsum(sizes[::-1]) * 8, strict=True):
        number = int(np.searchsorted(np.cumsum(packed_bytes), filled))
        bucket_of[n] = number
    ready = [dict(zip((n for n, _ in own), np.cumsum([s for _, s in own]), strict=True)) for own in backwards]
    for number, size_bytes in enumerate(packed_bytes):
        members = [n for n in bucket_of if bucket_of[n] <= number]
        launched = max(own[n] for own in ready for n in (range(len(sizes)) if sequential else members))
        t = max(t, launched) + 2 * (p - 1) * ALPHA_S + 2 * (p - 1) * (size_bytes / p) * BETA
    return float(max([t, *(max(own.values()) for own in ready)]))


@check(
    hints=(
        "Who waits while backward could go on? Launch as soon as a bucket may go, and wait in finish only.",
        "A bucket may go when it is full and all before it have gone: look again after each parameter.",
    ),
    judged_by="network",
)
def check_communication_hides_behind_backward(student: Student, rng: np.random.Generator) -> None:
    """The last bucket arrives at t_i = max(t_(i-1), r_i) + c_i, for launches r_i as early as the order allows."""
    sizes, cap_bytes = [600, 1200, 600, 600], 4800 * 2
    for times in ([[(3, 9e-6), (2, 1e-6), (1, 9e-6), (0, 9e-6)]] * 2, [[(1, 9e-6), (3, 1e-6), (2, 1e-6), (0, 30e-6)]] * 3):
        late = [[(n, 2 * seconds) for n, seconds in times[0]], *times[1:]]  # rank 0 is slower
        expected, after = arrival_s(sizes, cap_bytes, late), arrival_s(sizes, cap_bytes, late, sequential=True)
        for result in play(student, rng, sizes, cap_bytes, [late]):
            told = f"{result.clock_s * 1e6:.2f} us after its begin, expected {expected * 1e6:.2f} us at most"
            told += f" ({after * 1e6:.2f} us if all buckets wait for the end of backward)"
            assert result.clock_s <= expected * (1 + 1e-9), f"{len(late)} ranks: rank {result.rank} is done {told}."

"""Hidden checks of buckets_in_flight, in teaching order: buckets, their packing, order, unused ones, steps, overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, Tensor, assert_close, check, tensor

Sizes = Sequence[int]  # of the parameters, in float64 numbers
Step = Sequence[Mapping[int, float]]  # by rank: parameters as they become ready, and the seconds that each takes
ALPHA_S, BETA, LAYERS = 2e-6, 1e-9, (600, 1200, 600, 600)


def play(student: Student, rng: Any, sizes: Sizes, cap_bytes: int, *steps: Step, groups: int = 1) -> list[RankResult]:
    """Play steps on each of some groups of simulated ranks and compare every gradient with the mean over its group."""
    p, ranks = len(steps[0]), range(groups * len(steps[0]))
    drawn = [[{n: rng.normal(size=(1, sizes[n])) for n in step[rank % p]} for rank in ranks] for step in steps]
    group_of = [tuple(range(rank - rank % p, rank - rank % p + p)) for rank in ranks]
    backwards: list[list[list[tuple[int, Tensor, float]]]] = [[] for _ in ranks]
    for (rank, own), (i, step) in product(enumerate(backwards), enumerate(steps)):
        own.append([(n, tensor(drawn[i][rank][n]), s) for n, s in step[rank % p].items()])
    per_rank = [(own, Group(group_of[rank]), list(sizes), cap_bytes) for rank, own in enumerate(backwards)]
    results = student.simulated("harness.averaged", per_rank, alpha_s=ALPHA_S, beta_s_per_byte=BETA)
    for result, (i, gradients), n in product(results, enumerate(drawn), range(len(sizes))):
        used = [gradients[other][n] for other in group_of[result.rank] if n in gradients[other]]
        total, where = np.sum([np.zeros((1, sizes[n])), *used], axis=0), f"step {i + 1}: rank {result.rank}"
        known = {"the sum over the ranks": total, "the mean over those that used it": total / max(1, len(used))}
        if used or result.value[i][n] is not None:  # what nobody used may stay without
            assert_close(result.value[i][n], tensor(total / p), f"{p} ranks, {where}: gradient {n}", mistakes=known)
    return results


def step(*orders: Sequence[int]) -> Step:
    """Return a step in which each rank computes the gradients in its own order."""
    return [dict.fromkeys(order, 1e-6) for order in orders]


def packed(sizes: Sizes, cap_bytes: int) -> list[list[int]]:
    """Return the numbers of the parameters in each bucket."""
    buckets: list[list[int]] = [[]]
    for n in reversed(range(len(sizes))):
        if buckets[-1] and 8 * sum(sizes[other] for other in [n, *buckets[-1]]) > cap_bytes:
            buckets.append([])
        buckets[-1].append(n)
    return buckets


def clocks_s(sizes: Sizes, cap_bytes: int, *steps: Step) -> list[float]:
    """Return when each rank is done, if bucket i arrives at max(t_(i-1), when all have launched it) + its time."""
    p, t, clocks = len(steps[0]), 0.0, [0.0] * len(steps[0])
    for step in steps:
        times = [clock + np.cumsum(list(own.values())) for clock, own in zip(clocks, step, strict=True)]
        ready = [dict(zip(own, moments, strict=True)) for own, moments in zip(step, times, strict=True)]
        going: list[int] = []
        for bucket in packed(sizes, cap_bytes):
            going += bucket  # and all buckets before it
            launched = max(own[n] for own in ready for n in going)
            t = max(t, launched) + 2 * (p - 1) * (ALPHA_S + 8 * sum(sizes[n] for n in bucket) / p * BETA)
        clocks = [max(t, *own.values()) for own in ready]
    return clocks


@check(
    hints=(
        "An asynchronous all-reduce has begun when the call returns. When may you touch its tensor again?",
        "Divide before the tensor is on its way, or after wait() has brought it back; never in between.",
    )
)
def check_one_bucket_brings_the_mean(student: Student, rng: np.random.Generator) -> None:
    """With one bucket for all, every rank ends with the mean of all ranks' gradients."""
    for ranks in (1, 2, 3):
        play(student, rng, [3, 2], 1024, step(*[(1, 0)] * ranks))


@check(hints=("Each bucket has a handle of its own. Has it been waited for, by the right group, before it is read?",))
def check_every_bucket_is_waited_for(student: Student, rng: np.random.Generator) -> None:
    """With several buckets every parameter has its mean, on 2 and 4 ranks and in two groups of 3 side by side."""
    for ranks, groups in ((2, 1), (4, 1), (3, 2)):
        play(student, rng, [4, 1, 3, 2, 5], 40, step(*[(4, 3, 2, 1, 0)] * ranks), groups=groups)


@check(
    hints=(
        "Which parameters does backward reach first, and how many bytes has one of their numbers?",
        "Begin at the end; open a new bucket when the next parameter would not fit. A larger one travels alone.",
    ),
    judged_by="network",
)
def check_buckets_are_packed_from_the_end(student: Student, rng: np.random.Generator) -> None:
    """All-reduces carry the buckets of the contract: filled from the last parameter on, up to the cap in bytes."""
    for sizes, cap_bytes in (([4, 1, 3, 2, 5], 40), ([2, 2, 2, 2], 31), ([1, 9, 1, 1], 24), ([3, 3, 3], 23)):
        expected = [8 * sum(sizes[n] for n in bucket) for bucket in packed(sizes, cap_bytes)]
        for result in play(student, rng, sizes, cap_bytes, step(*[range(len(sizes) - 1, -1, -1)] * 2)):
            sent = [call.payload_bytes for call in result.calls if call.op == "all_reduce"]
            what = f"{sizes} float64 numbers, at most {cap_bytes} bytes: rank {result.rank}'s buckets have"
            assert sent == expected, f"{what} {sent} bytes, expected {expected}."


@check(
    hints=(
        "On rank 0 parameter 2 is ready first, on rank 1 parameter 0. Whose buckets meet in the first all-reduce?",
        "Collectives are matched by their order. Let a full bucket wait until those before it have been launched.",
    )
)
def check_all_ranks_launch_in_one_order(student: Student, rng: np.random.Generator) -> None:
    """Whatever order gradients become ready in on each rank, buckets meet their equals."""
    for ranks in (2, 3, 4):
        play(student, rng, [3, 3, 3], 24, step(*[(2, 1, 0), (0, 1, 2), (1, 2, 0), (0, 2, 1)][:ranks]))
    play(student, rng, [2, 1, 2, 1], 24, step((3, 2, 1, 0), (0, 2, 1, 3)))


@check(
    hints=(
        "A rank whose batch did not use a parameter never calls ready for it. Who sends its bucket?",
        "finish launches what is left, in order, with zeros where a gradient is missing.",
    )
)
def check_unused_parameters_hold_nobody_up(student: Student, rng: np.random.Generator) -> None:
    """A parameter that a rank did not use counts as zero, and its bucket travels all the same."""
    for used in ([(2, 1, 0), (2, 0)], [(2,), (1,), (0,)], [(2, 1, 0), (), (1,)], [(2, 0), (2, 0)]):
        play(student, rng, [3, 3, 3], 48, step(*used))


@check(hints=("The second step begins like the first. What does your object still remember of the one before?",))
def check_every_step_begins_anew(student: Student, rng: np.random.Generator) -> None:
    """Three steps with the same buckets each bring their own means, also after unused parameters."""
    play(student, rng, [3] * 3, 24, step((2, 1, 0), (2, 0)), step((2, 1, 0), (2, 1, 0)), step((2, 0), (2, 1, 0)))


@check(
    hints=(
        "Who waits while backward could go on? Launch as soon as a bucket may go, and wait in finish only.",
        "A bucket may go when it is full and all before it have gone: look again after each parameter.",
    ),
    judged_by="network",
)
def check_communication_hides_behind_backward(student: Student, rng: np.random.Generator) -> None:
    """The last bucket arrives at t_i = max(t_(i-1), r_i) + c_i, for launches r_i as early as the order allows."""
    for backward, ranks in (({3: 9e-6, 2: 1e-6, 1: 9e-6, 0: 9e-6}, 2), ({1: 9e-6, 3: 1e-6, 2: 1e-6, 0: 30e-6}, 3)):
        step = [{n: 2 * seconds for n, seconds in backward.items()}, *[backward] * (ranks - 1)]  # rank 0 is slower
        results = play(student, rng, LAYERS, 9600, step, step)
        for result, expected in zip(results, clocks_s(LAYERS, 9600, step, step), strict=True):
            told = f"done after {result.clock_s * 1e6:.2f} us, expected {expected * 1e6:.2f} us at most"
            assert result.clock_s <= expected * (1 + 1e-9), f"{ranks} ranks, 2 steps: rank {result.rank} is {told}."

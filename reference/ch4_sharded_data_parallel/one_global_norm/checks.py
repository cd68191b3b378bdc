"""Hidden checks of one_global_norm, in teaching order: one rank, shards, replicas, groups, then clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, Student, Tensor, assert_close, assert_equal, check, tensor

Held = list[tuple[int, bool, Tensor | None]]  # what one rank holds: (number of the parameter, sharded, gradient)


def total(gradients: Sequence[Any]) -> float:
    """Return the norm of gradients as one vector, in float64."""
    parts = [np.ravel(getattr(one, "array", one)).astype(np.float64) for one in gradients]
    return float(np.linalg.norm(np.concatenate([np.zeros(1), *parts])))


def cut(vector: Any, at: Sequence[int]) -> list[Held]:
    """Cut one gradient into shards, one a rank."""
    return [[(0, True, tensor(part))] for part in np.split(vector, at)]


def assert_norm(student: Student, ranks: Sequence[Held], norm: float, norm_type: float = 2.0) -> None:
    """Compare the norm on every rank with `norm` and with known mistakes."""
    each = [total([own for _, _, own in held if own is not None]) for held in ranks]
    known = {"the largest of the ranks' own norms": max(each), "the sum of the ranks' own norms": sum(each)}
    known["the norm with every replica counted"] = total(each)
    wrong = {said: value for said, value in known.items() if not math.isclose(value, norm)}
    for result in student.simulated("harness.norm", [(held,) for held in ranks], common=(Group(), norm_type)):
        assert type(result.value) is float, f"rank {result.rank}: the norm is not a Python float."
        assert_close(result.value, norm, f"rank {result.rank} of {len(ranks)}: the norm", mistakes=wrong)


def assert_clipped(run: Any, ranks: Sequence[Held], max_norm: float, norm: float) -> None:
    """Clip on every rank; compare the norm and all gradients with one coefficient for the whole model."""
    factor = max_norm / norm if norm > max_norm else 1.0
    for result in run("harness.clipped", [(held,) for held in ranks], common=(Group(), max_norm)):
        where = f"rank {result.rank} of {len(ranks)}, clipped to {max_norm}"
        assert_close(result.value[0], norm, f"{where}: the norm before")
        for (_, _, own), got in zip(ranks[result.rank], result.value[1], strict=True):
            if own is None or factor == 1.0:
                assert_equal(got, own, f"{where}: a gradient")
            else:
                known = {"the gradient as it was": own, "the gradient scaled twice": own.array * factor * factor}
                assert_close(got, tensor(own.array * factor), f"{where}: a gradient", rtol=1e-6, mistakes=known)


@check(hints=("One vector of all elements of all gradients: what is its length?", "Return a float: norm.item()."))
def check_one_rank_has_the_whole_norm(student: Student, rng: np.random.Generator) -> None:
    """On one rank the norm is that of all gradients together, sharded or not, as a Python float."""
    weight, bias = rng.normal(size=(2, 3)), rng.normal(size=4)
    held = [(0, True, tensor(weight)), (1, False, tensor(bias)), (2, False, None)]
    assert_norm(student, [held], total([weight, bias]))


@check(
    hints=(
        "The shards [3] and [4] make the vector [3, 4]. Which of a shard's numbers can be added up?",
        "Norms do not add up and neither is the largest the whole: squares do. The root comes after the sum.",
    )
)
def check_two_shards_have_one_norm(student: Student) -> None:
    """Two ranks that hold the shards [3] and [4] call the norm 5."""
    assert_norm(student, cut(np.array([3.0, 4.0]), [1]), 5.0)


@check(hints=("A rank with an empty shard, or with no parameter at all, has 0 to add, and must still take part.",))
def check_uneven_and_empty_shards(student: Student, rng: np.random.Generator) -> None:
    """Three and five ranks with shards of any length, one of them empty, share one norm."""
    for at, bare in (([4, 6], 0), ([5, 5, 7], 1)):
        vector = rng.normal(size=8)
        assert_norm(student, [*cut(vector, at), *[[]] * bare], total([vector]))


@check(
    hints=(
        "A replicated gradient reaches the sum from every rank. How often should each of its elements count?",
        "Only shards go through the all-reduce; what every rank holds is added afterwards (or by one rank only).",
    )
)
def check_a_replica_counts_once(student: Student, rng: np.random.Generator) -> None:
    """Beside shards, a gradient that all ranks hold counts once, on 2 and 3 ranks."""
    for at in ([2], [2, 3]):
        body, bias = rng.normal(size=5), rng.normal(size=4)
        assert_norm(student, [[(1, False, tensor(bias)), *held] for held in cut(body, at)], total([body, bias]))


@check(hints=("Two entries of the list can be one and the same tensor: that is one parameter, and counts once.",))
def check_a_tied_parameter_counts_once(student: Student, rng: np.random.Generator) -> None:
    """A parameter that is in the list twice counts once, sharded or replicated."""
    body, bias = rng.normal(size=5), rng.normal(size=4)
    ranks = [2 * [(1, False, tensor(bias)), *held] for held in cut(body, [2])]
    assert_norm(student, ranks, total([body, bias]))


@check(hints=("Each collective takes the group as an argument; without it, it is over all ranks.",))
def check_a_group_has_a_norm_of_its_own(student: Student, rng: np.random.Generator) -> None:
    """The norm is over the ranks of the group, and those outside do not count."""
    shards, groups = rng.normal(size=(5, 3)), [(0, 1, 2)] * 3 + [(3, 4)] * 2
    per_rank = [([(0, True, tensor(own))], Group(group), 2.0) for own, group in zip(shards, groups, strict=True)]
    for result in student.simulated("harness.norm", per_rank):
        own, known = groups[result.rank], {"the norm over all five ranks": total([shards])}
        assert_close(result.value, total([shards[list(own)]]), f"rank {result.rank} of {own}: the norm", mistakes=known)


@check(hints=("300 squared is 90,000, more than float16 can hold. Widen first, square then.",))
def check_low_precision_does_not_overflow(student: Student) -> None:
    """The squares of float16 gradients are added up in float64."""
    vector = np.array([300, -400, 0.001, 1200], dtype=np.float16)
    assert_norm(student, cut(vector, [1, 3]), total([vector]))


@check(hints=("For inf nothing is squared: MAX over the shards, then the larger of that and the replicas'.",))
def check_the_largest_magnitude(student: Student) -> None:
    """With norm_type inf it is the largest magnitude of any element, in a shard (one is empty) or in a replica."""
    for replica, largest in ((1.0, 8.0), (-9.0, 9.0)):
        ranks = cut(np.array([1.0, 2, -8, 3]), [2, 2])
        assert_norm(student, [[*held, (1, False, tensor([replica]))] for held in ranks], largest, math.inf)
    pairs = [(0, 1), (0, 1), (2, 3), (2, 3)]
    per_rank = [([(0, True, tensor([float(rank)]))], Group(pair), math.inf) for rank, pair in enumerate(pairs)]
    for result in student.simulated("harness.norm", per_rank):
        assert_close(result.value, float(pairs[result.rank][1]), f"rank {result.rank}, in a group of 2: the largest")


@check(hints=("An iterator can be walked through once: keep a list of the distinct parameters, and use it twice.",))
def check_every_gradient_is_scaled_once(student: Student, rng: np.random.Generator) -> None:
    """Above the threshold each gradient is multiplied once by max_norm / norm; on three real ranks, ties included."""
    body, bias = 40 * rng.normal(size=7), 40 * rng.normal(size=3)
    ranks = [[*held, (1, False, tensor(bias)), (2, False, None), *held] for held in cut(body, [3, 3])]
    assert_clipped(student.ranks, ranks, 2.5, total([body, bias]))


@check(hints=("What is max_norm / norm if the norm is small, or zero? Scale only where it exceeds max_norm.",))
def check_below_the_threshold_nothing_changes(student: Student, rng: np.random.Generator) -> None:
    """A gradient shorter than the threshold, or of zeros only, keeps every bit."""
    for body in (rng.normal(size=5), np.zeros(5)):
        assert_clipped(student.simulated, cut(body, [2]), 100.0, total([body]))


@check(hints=("Add up at home first; then one collective, of one number.",), judged_by="network")
def check_one_number_travels(student: Student) -> None:
    """On four ranks with ten sharded parameters, each rank takes part in one collective, of one number."""
    held = [(number, True, tensor([1.0, 2.0])) for number in range(10)]
    for result in student.simulated("harness.norm", [(held,)] * 4, common=(Group(), 2.0)):
        sizes = [math.prod(call.shape) for call in result.calls]
        assert sizes == [1], f"rank {result.rank}: collectives of {sizes[:12]} numbers, expected one, of one number."

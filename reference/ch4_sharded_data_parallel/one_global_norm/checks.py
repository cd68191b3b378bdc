"""Hidden checks of one_global_norm, in teaching order: one rank, shards, replicas, groups, then clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
Held = list[tuple[int, bool, Array | None]]  # what one rank holds: (number of the parameter, sharded, gradient)


def sent(held: Held) -> list[tuple[int, bool, Any]]:
    """Return one rank's parameters as they travel to it."""
    return [(number, sharded, None if own is None else tensor(own)) for number, sharded, own in held]


def norms(student: Student, ranks: Sequence[Held], group: Group, norm_type: float = 2.0) -> list[RankResult]:
    """Return what every rank calls the global norm."""
    return student.simulated("harness.norm", [(sent(held), group, norm_type) for held in ranks])


def total(gradients: Sequence[Array]) -> float:
    """Return the norm of gradients as one vector, in float64."""
    return float(np.linalg.norm(np.concatenate([np.ravel(one).astype(np.float64) for one in gradients])))


def assert_norm(student: Student, ranks: Sequence[Held]) -> None:
    """Compare the norm on every rank with that of a process that holds the whole model, and with known mistakes."""
    shards = [own for held in ranks for _, sharded, own in held if sharded and own is not None]
    whole = next((held for held in ranks if held), [])
    copies = [own for number, own in {n: own for n, sharded, own in whole if not sharded}.items() if own is not None]
    expected = total([*shards, *copies])
    each = [total([np.zeros(1), *(own for _, _, own in held if own is not None)]) for held in ranks]
    known = {
        "the largest of the ranks' own norms": max(each),
        "the sum of the ranks' own norms": sum(each),
        "the norm with every replica counted": math.sqrt(sum(own * own for own in each)),
        "the norm of the sharded parameters only": total([np.zeros(1), *shards]),
    }
    for result in norms(student, ranks, Group()):
        mistakes = known | {"the norm of what this rank holds": each[result.rank]}
        wrong = {said: value for said, value in mistakes.items() if not math.isclose(value, expected)}
        assert type(result.value) is float, f"rank {result.rank}: the norm is not a Python float."
        assert_close(result.value, expected, f"rank {result.rank} of {len(ranks)}: the norm", mistakes=wrong)


def cut(vector: Array, at: Sequence[int]) -> list[Held]:
    """Cut one gradient into shards, one a rank."""
    return [[(0, True, part)] for part in np.split(vector, at)]


@check(hints=("One vector of all elements of all gradients: what is its length?", "Return a float: norm.item()."))
def check_one_rank_has_the_whole_norm(student: Student, rng: np.random.Generator) -> None:
    """On one rank the norm is that of all gradients together, sharded or not, as a Python float."""
    assert_norm(student, [[(0, True, rng.normal(size=(2, 3))), (1, False, rng.normal(size=4)), (2, False, None)]])


@check(
    hints=(
        "The shards [3] and [4] make the vector [3, 4]. Which of a shard's numbers can be added up?",
        "Norms do not add up and neither is the largest the whole: squares do. The root comes after the sum.",
    )
)
def check_two_shards_have_one_norm(student: Student) -> None:
    """Two ranks that hold the shards [3] and [4] call the norm 5."""
    assert_norm(student, cut(np.array([3.0, 4.0]), [1]))


@check(
    hints=(
        "Shards differ in length, so a mean over the ranks, or twice one rank's share, is no norm of the whole.",
        "A rank with an empty shard, or with no parameter at all, has the sum 0 to add, and must still take part.",
    )
)
def check_uneven_and_empty_shards(student: Student, rng: np.random.Generator) -> None:
    """Three and five ranks with shards of any length, one of them empty, share one norm."""
    assert_norm(student, cut(rng.normal(size=7), [4, 6]))
    assert_norm(student, [*cut(rng.normal(size=8), [5, 5, 7]), []])


@check(
    hints=(
        "A replicated gradient reaches the sum from every rank. How often should each of its elements count?",
        "Only shards go through the all-reduce; what every rank holds is added afterwards (or by one rank only).",
    )
)
def check_a_replica_counts_once(student: Student, rng: np.random.Generator) -> None:
    """Beside shards, a gradient that all ranks hold counts once, on 2 and 3 ranks."""
    for world_size in (2, 3):
        scale, bias = np.array(rng.normal()), rng.normal(size=4)
        ranks = cut(rng.normal(size=2 * world_size + 1), range(2, 2 * world_size, 2))
        assert_norm(student, [[(1, False, scale), *held, (2, False, bias)] for held in ranks])


@check(
    hints=(
        "Two entries of the list can be one and the same tensor.",
        "Tensors that are one object are one parameter: keep the first of each before you add up.",
    )
)
def check_a_tied_parameter_counts_once(student: Student, rng: np.random.Generator) -> None:
    """A parameter that is in the list twice counts once, sharded or replicated."""
    ends, norm = [(0, True, rng.normal(size=3)), (0, True, rng.normal(size=2))], (1, False, rng.normal(size=2))
    [first, second] = [[end, norm, end, norm] for end in ends]
    expected = total([ends[0][2], ends[1][2], norm[2]])
    for result in norms(student, [first, second], Group()):
        assert_close(result.value, expected, f"rank {result.rank} of 2, everything listed twice: the norm")


@check(
    hints=(
        "Five ranks: three hold one model, two another. Whose squares were added?",
        "Each collective takes the group as an argument; without it, it is over all ranks.",
    )
)
def check_a_group_has_a_norm_of_its_own(student: Student, rng: np.random.Generator) -> None:
    """The norm is over the ranks of the group, and those outside do not count."""
    shards, groups = rng.normal(size=(5, 3)), [(0, 1, 2)] * 3 + [(3, 4)] * 2
    per_rank = [([(0, True, tensor(own))], Group(group), 2.0) for own, group in zip(shards, groups, strict=True)]
    for result in student.simulated("harness.norm", per_rank):
        group = groups[result.rank]
        known = {"the norm over all five ranks": total([shards])}
        where = f"rank {result.rank}, in a group of {len(group)}: the norm"
        assert_close(result.value, total([shards[list(group)]]), where, mistakes=known)


@check(
    hints=(
        "300 squared is 90,000. What is the largest number of the gradients' dtype?",
        "Widen first, square then: .double() before the norm, not after.",
    )
)
def check_low_precision_does_not_overflow(student: Student) -> None:
    """The squares of float16 gradients are added up in float64."""
    ranks = cut(np.array([300, -400, 0.001, 1200], dtype=np.float16), [1, 3])
    assert_norm(student, [[*held, (1, False, np.array([7, 900], dtype=np.float16))] for held in ranks])


@check(
    hints=(
        "For norm_type inf nothing is added or squared: which reduction puts magnitudes together?",
        "The largest of all magnitudes: ReduceOp.MAX over the shards, and the larger of that and the replicas'.",
    )
)
def check_the_largest_magnitude(student: Student, rng: np.random.Generator) -> None:
    """With norm_type inf it is the largest magnitude of any element, in a shard or in a replica."""
    for shard, replica in ((-9.0, 1.0), (1.0, -9.0)):
        ranks: list[Held] = [[(0, True, own), (1, False, np.array([replica]))] for own in rng.uniform(size=(3, 4))]
        ranks[1][0][2][2] = shard  # type: ignore[index]  # an array
        for result in norms(student, [[(0, True, np.zeros(0))], *ranks[1:]] if shard < 0 else ranks, Group(), math.inf):
            if result.rank or shard > 0:
                assert_close(result.value, 9.0, f"rank {result.rank} of 3: the largest magnitude")


def assert_clipped(
    run: Callable[..., list[RankResult]], ranks: Sequence[Held], max_norm: float, norm: float, *, tied: bool = False
) -> None:
    """Clip on every rank; compare the norm and all gradients with one coefficient for the whole model."""
    order = [0, 1, 0] if tied else range(len(ranks[0]))
    per_rank = [([sent(held)[place] for place in order],) for held in ranks]
    factor = max_norm / norm if norm > max_norm else 1.0
    for result in run("harness.clipped", per_rank, common=(Group(), max_norm)):
        where = f"rank {result.rank} of {len(ranks)}, clipped to {max_norm}"
        assert_close(result.value[0], norm, f"{where}: the norm before")
        for own, got in zip([ranks[result.rank][place][2] for place in order], result.value[1], strict=True):
            if own is None or factor == 1.0:
                assert_equal(got, None if own is None else tensor(own), f"{where}: a gradient")
            else:
                known = {"the gradient as it was": own, "the gradient scaled twice": own * factor * factor}
                assert_close(got, tensor(own * factor), f"{where}: a gradient", rtol=1e-6, mistakes=known)


@check(
    hints=(
        "Which gradients did your loop reach: sharded, replicated, and each how many times?",
        "An iterator can be walked through once: keep a list of the distinct parameters, then use it twice.",
        "The coefficient is max_norm / norm, from the global norm, and one for all parameters.",
    )
)
def check_every_gradient_is_scaled_once(student: Student, rng: np.random.Generator) -> None:
    """Above the threshold every gradient is multiplied once by max_norm / norm, on every rank; ties included."""
    body, bias = 40 * rng.normal(size=7), 40 * rng.normal(size=3)
    ranks: list[Held] = [[*held, (1, False, bias), (2, False, None)] for held in cut(body, [3, 3])]
    norm = total([body, bias])
    assert_clipped(student.simulated, ranks, 2.5, norm)
    assert_clipped(student.simulated, ranks, 2.5, norm, tied=True)


@check(
    hints=(
        "What is max_norm / norm if the norm is small, and what if it is zero?",
        "Scale only where the norm exceeds the threshold; below it not even a factor of one is needed.",
    )
)
def check_below_the_threshold_nothing_changes(student: Student, rng: np.random.Generator) -> None:
    """A gradient shorter than the threshold, or of zeros only, keeps every bit."""
    for body in (rng.normal(size=5), np.zeros(5)):
        assert_clipped(student.simulated, cut(body, [2]), 100.0, total([body]))


@check(
    hints=(
        "How many numbers have to travel so that everybody can add up the squares?",
        "Add up at home first; then one collective, of one number.",
    ),
    judged_by="network",
)
def check_one_number_travels(student: Student, rng: np.random.Generator) -> None:
    """On four ranks with ten sharded parameters, each rank takes part in one collective, of one number."""
    ranks: list[Held] = [[(n, True, rng.normal(size=3)) for n in range(10)] for _ in range(4)]
    for result in norms(student, ranks, Group()):
        sizes = [math.prod(call.shape) for call in result.calls]
        where = f"rank {result.rank} of 4, ten parameters"
        assert len(sizes) == 1, f"{where}: takes part in {len(sizes)} operations, expected one."
        assert sizes == [1], f"{where}: sends {sizes[0]} numbers, expected one."


@check(hints=("Is anything in your code particular to one transport, such as the rank's number?",), guards="gloo")
def check_real_ranks_clip_alike(student: Student, rng: np.random.Generator) -> None:
    """On three real ranks shards and replicas are clipped by one norm."""
    body, bias = 40 * rng.normal(size=7), 40 * rng.normal(size=3)
    ranks: list[Held] = [[*held, (1, False, bias)] for held in cut(body, [2, 5])]
    assert_clipped(student.ranks, ranks, 1.0, total([body, bias]))

"""Hidden checks of column_then_row, in teaching order: one rank, two, more, subgroups, then what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]


def gelu(z: Array) -> Array:
    """Return z * Phi(z), the exact GELU."""
    return np.asarray(z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))))


def run_layer(student: Student, x: Array, a: Array, b: Array, groups: list[tuple[int, ...]]) -> list[RankResult]:
    """Compute the layer on simulated ranks, rank r in the group `groups[r]`, and compare every output."""
    results = student.simulated("harness.output", [(tensor(x), tensor(a), tensor(b), Group(own)) for own in groups])
    for result in results:
        size = len(groups[result.rank])
        if size > 1:
            cuts = [np.array_split(matrix, size) for matrix in (x.T, a)]
            parts = [share.T @ rows for share, rows in zip(*cuts, strict=True)]  # of every hidden unit's sum
            mistakes = {
                "gelu of partial sums: the pre-activations were not complete": sum(map(gelu, parts)) @ b,
                f"the output of one of {size} pieces, not yet summed over the ranks": gelu(parts[0]) @ b,
                f"the mean of the {size} ranks' parts, not their sum": gelu(x @ a) @ b / size,
                f"the output {size} times": gelu(x @ a) @ b * size,
            }
        where = f"rank {result.rank} of {len(groups)}: output"
        assert_close(result.value["output"], tensor(gelu(x @ a) @ b), where, mistakes=mistakes if size > 1 else None)
    return results


def draw(rng: np.random.Generator, *shapes: tuple[int, int]) -> list[Array]:
    """Draw matrices whose values have at most two decimals, easy to read in a message."""
    return [np.array(rng.normal(size=shape)).round(2) for shape in shapes]


@check(
    hints=(
        "One rank holds both matrices whole and nobody to add anything up with. What is left of the layer?",
        "gelu goes between the two products, on every hidden unit once.",
    )
)
def check_one_rank_is_the_whole_layer(student: Student, rng: np.random.Generator) -> None:
    """One rank alone computes gelu(x @ a) @ b."""
    run_layer(student, *draw(rng, (3, 4), (4, 6), (6, 5)), [(0,)])


@check(
    hints=(
        "Print what goes into gelu on each rank. Is it a hidden unit, or a summand of one?",
        "Which cut of the first matrix leaves every rank with complete sums: some of its rows, or some of its columns?",
        "Give each rank some hidden units: those columns of the first matrix and the same rows of the second.",
    )
)
def check_two_ranks_equal_one(student: Student, rng: np.random.Generator) -> None:
    """On two ranks the output is that of the unsplit layer, the activation function included."""
    run_layer(student, *draw(rng, (3, 4), (4, 6), (6, 5)), [(0, 1)] * 2)


@check(
    hints=(
        "Seven features, twelve hidden units, five outputs: which of the three must the ranks share out?",
        "Rank r's columns of the first matrix are the units whose rows of the second it needs, whatever world_size is.",
    )
)
def check_any_number_of_ranks(student: Student, rng: np.random.Generator) -> None:
    """Three and four ranks equal one too, with features and outputs that nobody can share out."""
    for world_size in (3, 4):
        run_layer(student, *draw(rng, (2, 7), (7, 12), (12, 5)), [tuple(range(world_size))] * world_size)


@check(
    hints=(
        "Five ranks form a group of three and one of two, and each group splits a layer of its own. Who adds up what?",
        "Pass the group to the collective, and ask it, not the world, for rank and size.",
    )
)
def check_a_group_splits_its_own_layer(student: Student, rng: np.random.Generator) -> None:
    """In a subgroup the layer is split over that group's ranks, and the others do not count."""
    run_layer(student, *draw(rng, (2, 3), (3, 6), (6, 4)), [(0, 1, 2)] * 3 + [(3, 4)] * 2)


@check(
    hints=(
        "Ten hidden units on four ranks: what does the last rank get, and would anyone notice?",
        "Raise ValueError in shard, before anything is cut.",
    )
)
def check_an_uneven_cut_is_refused(student: Student) -> None:
    """A number of hidden units that is not a multiple of the ranks is refused with a ValueError."""
    for hidden, world_size in ((10, 4), (8, 3), (2, 4)):
        a, b = tensor(np.ones((12, hidden))), tensor(np.ones((hidden, 12)))
        ended = student.call("harness.refusal", a, b, world_size).value
        what = f"shard for {hidden} hidden units on {world_size} ranks"
        assert ended == "refused", f"{what} {ended}, expected a ValueError."


@check(
    hints=(
        "Splitting a layer is to save memory. How many elements of each matrix does one of three ranks hold?",
        "mlp needs of both matrices only what belongs to this rank's hidden units: let shard keep no more.",
    )
)
def check_each_rank_holds_one_part(student: Student, rng: np.random.Generator) -> None:
    """Each of t ranks holds one part in t of both matrices, and x and the pieces stay as they are."""
    for world_size in (2, 3):
        x, a, b = draw(rng, (2, 6), (6, 12), (12, 3))
        for result in run_layer(student, x, a, b, [tuple(range(world_size))] * world_size):
            where, mistakes = f"rank {result.rank} of {world_size}", {"both matrices whole": [a.size, b.size]}
            expected = [a.size // world_size, b.size // world_size]
            assert_equal(result.value["elements"], expected, f"{where}: elements of a and b", mistakes=mistakes)
            assert_close(result.value["x"], tensor(x), f"{where}: x after the call")
            assert result.value["pieces intact"], f"{where}: mlp changed a piece of a matrix, expected it to stay."


@check(
    hints=(
        "Count the collectives between the first product and the last. Which of them does the arithmetic need?",
        "If each rank's hidden units are complete, and meet their own rows of b, nothing travels before the end.",
    ),
    judged_by="network",
)
def check_one_all_reduce_is_all(student: Student, rng: np.random.Generator) -> None:
    """Each rank communicates once: an all-reduce of the n x outputs numbers of the output."""
    for result in run_layer(student, *draw(rng, (3, 4), (4, 12), (12, 5)), [(0, 1, 2)] * 3):
        made = [f"{call.op} of {list(call.shape)}" for call in result.calls]
        what = f"rank {result.rank} of 3: collectives"
        mistakes = {"right, but the hidden units travelled too": ["all_reduce of [3, 12]", "all_reduce of [3, 5]"]}
        assert_equal(made, ["all_reduce of [3, 5]"], what, mistakes=mistakes)

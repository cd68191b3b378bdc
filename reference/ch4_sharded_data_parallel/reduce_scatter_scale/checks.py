"""Hidden checks of reduce_scatter_scale, in teaching order: the shard, its scale, float16, traffic, memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

Rows = np.ndarray[Any, Any]


def groups(shards: int, replicas: int) -> list[tuple[Group, Group]]:
    """Return each rank's shard group and replica group; ranks of a replica are neighbours."""
    grid = np.arange(shards * replicas).reshape(replicas, shards)
    rows, columns = [Group(tuple(map(int, row))) for row in grid], [Group(tuple(map(int, column))) for column in grid.T]
    return [(rows[rank // shards], columns[rank % shards]) for rank in range(shards * replicas)]


def reduced(student: Student, rows: Rows, shards: int, dtype: str, function: str = "mean_shard") -> list[RankResult]:
    """Give rank r row r on a grid of `shards` shards and as many replicas as that makes."""
    grid = groups(shards, len(rows) // shards)
    per_rank = [(tensor(row, dtype), *pair) for row, pair in zip(rows, grid, strict=True)]
    return student.simulated(function, per_rank)


def assert_means(results: list[RankResult], rows: Rows, shards: int, dtype: str, rtol: float) -> None:
    """Compare every rank's shard with its slice of the mean, in float64."""
    mean = rows.mean(axis=0).reshape(shards, -1)
    replicas = len(rows) // shards
    for result in results:
        own = mean[result.rank % shards]
        mistakes = {f"the sum over the {len(rows)} ranks": own * len(rows)} if len(rows) > 1 else {}
        if replicas > 1:
            mistakes |= {
                f"{replicas} times the mean: a sum over {len(rows)} ranks, divided by {shards}": own * replicas,
                f"the mean divided by the {replicas} replicas once more": own / replicas,
                f"the mean divided by all {len(rows)} ranks once more": own / len(rows),
            }
        what = f"{replicas} replicas of {shards} shards, rank {result.rank}: shard of the mean gradient"
        assert_close(result.value, tensor(own, dtype), what, rtol=rtol, mistakes=mistakes)


@check(
    hints=(
        "Member i gets the i-th shard of the gradients' mean: which collective adds up and leaves each rank its part?",
        "reduce_scatter_single adds. By how many gradients must the sum be divided?",
    )
)
def check_each_rank_gets_its_slice_of_the_mean(student: Student, rng: np.random.Generator) -> None:
    """Without replicas member i of 1, 2, 3 or 5 ranks gets the i-th slice of the mean gradient, in its dtype."""
    for shards in (1, 2, 3, 5):
        for dtype, rtol in (("float64", 1e-10), ("float32", 1e-5)):
            rows = rng.normal(size=(shards, 4 * shards))
            assert_means(reduced(student, rows, shards, dtype), rows, shards, dtype, rtol)


@check(
    hints=(
        "Two collectives add up, one after the other. Over how many gradients is the sum when both are done?",
        "One division is enough: by shards times replicas. Two are right only if their product is that.",
    )
)
def check_replicas_count_in_the_mean(student: Student, rng: np.random.Generator) -> None:
    """With replicas the mean is taken over all ranks, shards times replicas, exactly once."""
    for shards, replicas in ((2, 2), (3, 2), (2, 3), (1, 4)):
        rows = rng.normal(size=(shards * replicas, 4 * shards))
        assert_means(reduced(student, rows, shards, "float64"), rows, shards, "float64", 1e-10)


@check(
    hints=(
        "float16 ends at 65504. How large is the sum of four gradients of 30000 before you divide it?",
        "Sum in float32 and come back at the end, or divide by about the root of the ranks before and the rest after.",
    )
)
def check_large_halves_do_not_overflow(student: Student, rng: np.random.Generator) -> None:
    """Four float16 gradients near 30000 have a mean near 30000, not infinity."""
    for shards in (4, 2):
        rows = rng.integers(1800, 1870, size=(4, 4 * shards)) * 16.0
        assert_means(reduced(student, rows, shards, "float16"), rows, shards, "float16", 2e-3)


@check(
    hints=(
        "The smallest float16 above 0 is 6e-8. What is left of 1.2e-7 divided by all ranks?",
        "What is divided before it is added loses digits at the lower end. Which type has room at both ends?",
    )
)
def check_small_halves_do_not_vanish(student: Student, rng: np.random.Generator) -> None:
    """Float16 gradients of a few of its smallest steps keep their mean."""
    for shards in (4, 2):
        rows = np.tile(2.0**-23 * rng.choice([1, 3, -1, 5], size=4 * shards), (4, 1))
        assert_means(reduced(student, rows, shards, "float16"), rows, shards, "float16", 1e-3)


@check(
    hints=(
        "Which part of an all-reduce does a rank that keeps one shard not need?",
        "Replicas exchange shards, not gradients: reduce-scatter first, then all-reduce what is left.",
    ),
    judged_by="network",
)
def check_no_rank_moves_more_than_it_needs(student: Student, rng: np.random.Generator) -> None:
    """A rank sends a ring's reduce-scatter of the gradient and all-reduce of a shard, no more."""
    for shards, replicas in ((2, 1), (5, 1), (3, 2), (2, 3)):
        n = 12 * shards
        most = ((shards - 1) * n // shards + 2 * (replicas - 1) * n // (shards * replicas)) * 8
        for result in reduced(student, rng.normal(size=(shards * replicas, n)), shards, "float64"):
            moved = sum(call.ring_bytes for call in result.calls)
            what = f"{replicas} replicas of {shards} shards, rank {result.rank} sends {moved} bytes of {n * 8} in all"
            whole = 2 * (shards * replicas - 1) * n * 8 // (shards * replicas)
            told = "\nthat is an all-reduce of the whole gradient" if moved == whole else ""
            assert moved <= most, f"{what}, expected at most {most}.{told}"


@check(
    hints=(
        "Does anything of the size of the whole gradient come into being beside it? Divide the shard instead.",
        "A slice of a large tensor keeps all of it in memory.",
    ),
    judged_by="observation",
)
def check_memory_stays_at_shards(student: Student, rng: np.random.Generator) -> None:
    """The result keeps one shard in memory, and at no time are there more than two beside the gradient."""
    for shards, replicas in ((4, 1), (3, 2)):
        rows = rng.normal(size=(shards * replicas, 20 * shards))
        for result in reduced(student, rows, shards, "float64", "harness.metered"):
            held, peak = result.value
            what = f"{replicas} replicas of {shards} shards of 20 elements, rank {result.rank}"
            assert held == 20, f"{what}: the result keeps {held} elements in memory, expected 20."
            assert peak <= 40, f"{what}: up to {peak} elements beside the gradient, expected at most 40."


@check(hints=("gloo adds, but has no average: divide yourself.",), guards="gloo")
def check_real_ranks_agree(student: Student, rng: np.random.Generator) -> None:
    """Four real ranks, two replicas of two shards, get their slices of the mean."""
    rows = rng.normal(size=(4, 6))
    per_rank = [(tensor(row), *pair) for row, pair in zip(rows, groups(2, 2), strict=True)]
    assert_means(student.ranks("mean_shard", per_rank), rows, 2, "float64", 1e-10)

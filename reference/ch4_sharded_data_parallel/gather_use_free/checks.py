"""Hidden checks of gather_use_free, in teaching order: training, what is kept, the peak, traffic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

WIDTHS = [3, 4, 2, 5]  # units of 12, 8 and 10 elements
Array = np.ndarray[Any, Any]


def sgd(batches: Array, weights: Sequence[Array]) -> tuple[list[list[Array]], list[Array]]:
    """Return every rank's outputs, step by step, and the weights after SGD on all ranks' mean gradient, by numpy."""
    matrices = [w.reshape(shape) for w, shape in zip(weights, pairwise(WIDTHS), strict=True)]
    outputs: list[list[Array]] = [[] for _ in batches]
    for step in range(batches.shape[1]):
        means = [np.zeros_like(matrix) for matrix in matrices]
        for rank, own in enumerate(batches[:, step]):
            xs = [own]
            for matrix in matrices:
                xs.append(np.tanh(xs[-1] @ matrix))
            outputs[rank].append(xs[-1])
            dy = xs[-1]
            for i in reversed(range(len(matrices))):
                dz = dy * (1 - xs[i + 1] ** 2)
                means[i] += xs[i].T @ dz / len(batches)
                dy = dz @ matrices[i].T
        matrices = [matrix - 0.1 * mean for matrix, mean in zip(matrices, means, strict=True)]
    return outputs, [matrix.reshape(-1) for matrix in matrices]


def assert_trained(results: list[RankResult], batches: Array, weights: Sequence[Array]) -> None:
    """Compare outputs and shards of all ranks with those of one process."""
    outputs, trained = sgd(batches, weights)
    p = len(batches)
    for result in results:
        for step, (actual, right) in enumerate(zip(result.value[0], outputs[result.rank], strict=True)):
            assert_close(actual, tensor(right), f"{p} ranks, rank {result.rank}: output of step {step + 1}")
        assert len(result.value[1]) == 3, f"{p} ranks: the model has {len(result.value[1])} shards, expected 3."
        for i, (actual, whole, start) in enumerate(zip(result.value[1], trained, weights, strict=True)):
            own, before = (np.pad(w, (0, -w.size % p)).reshape(p, -1)[result.rank] for w in (whole, start))
            mistakes = {"its value before the first step": before}
            what = f"{p} ranks, rank {result.rank}: shard of unit {i}"
            assert_close(actual, tensor(own), what, mistakes=mistakes)


def drawn(rng: np.random.Generator, ranks: int, steps: int) -> tuple[Array, list[Array]]:
    """Return batches for all ranks and steps, and weights."""
    sizes = [rows * columns for rows, columns in pairwise(WIDTHS)]
    return rng.normal(size=(ranks, steps, 2, 3)), [rng.normal(size=size) for size in sizes]


def sent(batches: Array, weights: Sequence[Array]) -> list[tuple[Any, ...]]:
    """Return the arguments of each rank."""
    whole = [tensor(weight) for weight in weights]
    return [([tensor(batch) for batch in own], WIDTHS, whole, Group()) for own in batches]


@check(
    hints=(
        "Is the first step's output right? Then look at the first unit's input in backward, and at the mean.",
        "Weights move at every step. Which weights does backward need: those of this step's forward, or older ones?",
        "A unit's shard may move when its own gradient is known, and never before its backward used its weight.",
    )
)
def check_ranks_train_as_one_process(student: Student, rng: np.random.Generator) -> None:
    """On 1, 2, 3 and 5 ranks three SGD steps give the outputs and shards of one process with all batches."""
    for ranks in (1, 2, 3, 5):
        batches, weights = drawn(rng, ranks, 3)
        assert_trained(student.simulated("harness.trained", sent(batches, weights)), batches, weights)


@check(
    hints=(
        "What does the model refer to after a step: whole weights, inputs, gradients, a cache?",
        "A shard that is a view keeps the vector it was cut from in memory.",
    ),
    judged_by="observation",
)
def check_a_rank_keeps_its_shards_only(student: Student) -> None:
    """Between steps a rank keeps the elements of its shards in memory and nothing else."""
    for world_size in (2, 3):
        for result in student.simulated("harness.metered", [(6, 24, Group(), 2)] * world_size):
            kept, own = result.value[0], 6 * 24 * 24 // world_size
            what = f"rank {result.rank} of {world_size} keeps {kept} elements between steps"
            assert kept <= own, f"{what}, expected its shards' {own} of the model's 3456."


@check(
    hints=(
        "How many whole weights are in memory when the last unit's forward runs? How many does it need?",
        "Gather a unit's weight where it is used, and hold it in nothing that outlives the use, such as a list.",
        "Backward needs the weight again: gather it again. And let go of each gradient once its shard is reduced.",
    ),
    judged_by="observation",
)
def check_units_are_whole_one_at_a_time(student: Student) -> None:
    """However many units there are, a step has at most 5 times one unit in memory beside shards and activations."""
    for world_size, units in ((2, 8), (3, 12)):
        for result in student.simulated("harness.metered", [(units, 24, Group(), 1)] * world_size):
            peak, own = result.value[1], units * 576 // world_size
            most = own + 5 * 576 + 2 * 24 * units  # activations: an input and a gradient for each unit
            what = f"{units} units of 576 elements, rank {result.rank} of {world_size}: up to {peak} elements"
            told = (
                "\nthat is room for whole weights, or gradients, of all units at once"
                if peak >= own + units * 576
                else ""
            )
            assert peak <= most, f"{what} in a step, expected at most {most}, of which {own} are shards.{told}"


@check(
    hints=(
        "Gathering moves (N - 1)/N of a unit. What does the collective that you use move?",
        "An all-reduce is a reduce-scatter and an all-gather: whoever needs one of them pays for two.",
    ),
    judged_by="network",
)
def check_a_step_moves_the_model_three_times(student: Student, rng: np.random.Generator) -> None:
    """In a ring a rank sends at most three times (N - 1)/N of the model: two gathers and a reduce-scatter a unit."""
    for world_size in (2, 3, 5):
        batches, weights = drawn(rng, world_size, 1)
        shards = sum(-(-weight.size // world_size) for weight in weights)
        most = 3 * (world_size - 1) * shards * 8
        for result in student.simulated("harness.trained", sent(batches, weights)):
            moved = sum(call.ring_bytes for call in result.calls)
            who = f"rank {result.rank} of {world_size} sends {moved} bytes in a step"
            assert moved <= most, f"{who}, expected at most {most}: {shards} elements of shards, 3 times round."


@check(hints=("All ranks must reach the same collectives in the same order.",), guards="gloo")
def check_real_ranks_train_as_one_process(student: Student, rng: np.random.Generator) -> None:
    """Two real ranks hold the outputs and shards of one process after two steps."""
    batches, weights = drawn(rng, 2, 2)
    assert_trained(student.ranks("harness.trained", sent(batches, weights)), batches, weights)

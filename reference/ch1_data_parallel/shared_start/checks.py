"""Hidden checks of shared_start, in teaching order: the start on one rank, on several, in groups, then the dice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from grader.judging import Group, Student, Tensor, assert_close, check, tensor

Values = dict[str, Tensor]


def drawn(rng: np.random.Generator) -> Values:
    """Return a model's values of every kind."""
    weight, frozen, scratch = rng.normal(size=(2, 3)), rng.normal(size=4), rng.normal(size=2)
    counter = np.int64(rng.integers(1, 10**12))  # too large for a float32
    values = {"weight": tensor(weight), "bias": tensor(rng.normal(size=()), "float32"), "frozen": tensor(frozen)}
    return values | {"counter": tensor(counter), "scratch": tensor(scratch)}


def assert_start(student: Student, models: Sequence[Values], names: Sequence[str], groups: Any = None) -> None:
    """Set up ranks with these models and compare the named tensors with those of each group's first member."""
    groups = groups or [tuple(range(len(models)))] * len(models)
    kept = [{name: own[name] for name in names} for own in models]
    per_rank = [(own, 5, Group(group)) for own, group in zip(kept, groups, strict=True)]
    for result in student.simulated("harness.started", per_rank):
        rank, group = result.rank, groups[result.rank]
        for name in names:
            expected = models[group[0]][name]
            mean = np.mean([models[member][name].array for member in group], axis=0)
            known = {f"the value of rank {other}": own[name] for other, own in enumerate(models) if other != group[0]}
            mistakes = {"the mean over the ranks, which is smaller than any start": mean} | known
            what = f"rank {rank} of {len(models)}, in the group {list(group)}: {name}"
            assert_close(result.value[name], expected, what, atol=0.0, mistakes=mistakes)


@check(
    hints=(
        "On one rank there is nobody to agree with. What may setup change in its model?",
        "The weights that rank 0 came with may be a checkpoint. A seed cannot bring them back: do not draw new ones.",
    )
)
def check_one_rank_keeps_its_start(student: Student, rng: np.random.Generator) -> None:
    """On one rank the model stays exactly as it came."""
    [result] = student.simulated("harness.started", [(values := drawn(rng), 5, Group())])
    assert_close(result.value, values, "the only rank: model", atol=0.0)
    weight = student.simulated("harness.linear", [(tensor(np.full((1, 4), 0.25)), 5, Group())])[0].value
    assert_close(weight, tensor(np.full((1, 4), 0.25)), "the only rank: the weight of a loaded nn.Linear", atol=0.0)


@check(
    hints=(
        "Averaged gradients keep equal models equal. What makes them equal to begin with?",
        "One rank's values must reach all others, as they are. Which collective copies?",
    )
)
def check_every_rank_starts_as_the_first(student: Student, rng: np.random.Generator) -> None:
    """On 2, 3 and 5 ranks every trained parameter starts as on the first rank."""
    for world_size in (2, 3, 5):
        assert_start(student, [drawn(rng) for _ in range(world_size)], ["weight", "bias"])


@check(
    hints=(
        "Running statistics and counters are part of a model too. Which of its tensors does your loop reach?",
        "model.parameters() has no buffers, and state_dict() only those that are saved. Who lists them all?",
    )
)
def check_buffers_and_frozen_parameters_too(student: Student, rng: np.random.Generator) -> None:
    """Frozen parameters and all buffers start as on the first rank, exactly and in their dtypes."""
    assert_start(student, [drawn(rng) for _ in range(3)], ["weight", "frozen", "counter", "scratch"])


@check(
    hints=(
        "Ranks 1, 3 and 4 form a group. Who is its first member, and who knows its global number?",
        "A broadcast's `src` counts in all ranks, `group_src` in the group.",
    )
)
def check_a_group_starts_as_its_own_first(student: Student, rng: np.random.Generator) -> None:
    """Two groups side by side each start as their own first member."""
    groups = [(0, 2), (1, 3, 4), (0, 2), (1, 3, 4), (1, 3, 4)]
    assert_start(student, [drawn(rng) for _ in range(5)], ["weight", "counter"], groups)


def throw(student: Student, befores: Sequence[int], seed: int, group: Group | None = None) -> list[dict[str, Any]]:
    """Return the dice of every rank as arrays, two kinds each."""
    per_rank = [(before, seed, group or Group()) for before in befores]
    return [{kind: drawn.array for kind, drawn in result.value.items()} for result in
            student.simulated("harness.dice", per_rank)]  # fmt: skip


@check(
    hints=(
        "Each rank has other data, and yet all drop the same neurons. What should its seed know beside the run's?",
        "Two generators are drawn from: yours and torch's default one. Seed both with the rank's own seed.",
    )
)
def check_no_two_ranks_throw_the_same_dice(student: Student) -> None:
    """Both generators yield different numbers on each of four ranks."""
    dice = throw(student, [11] * 4, 5)
    for first, second in combinations(range(4), 2):
        for kind, what in (("data", "the generator for data yields"), ("dropout", "dropout uses")):
            same = np.array_equal(dice[first][kind], dice[second][kind])
            assert not same, f"{what} the same numbers on ranks {first} and {second} of 4, expected different ones."


@check(
    hints=(
        "Start the run again tomorrow: which number in your seeds is another one then?",
        "Let a rank's seed be made of `seed` and its place in `group`, and of nothing else.",
    )
)
def check_the_same_seed_throws_them_again(student: Student) -> None:
    """Seed and place in the group decide the dice: the same give the same numbers, another seed others."""
    first = throw(student, [11, 12], 5)
    again = throw(student, [21, 22], 5)
    other = throw(student, [11, 12], 6)
    per_rank = [(11, 5, Group(group)) for group in ((0,), (1, 2), (1, 2))]
    shifted = [result.value for result in student.simulated("harness.dice", per_rank)][1:]
    for place in range(2):
        for kind, numbers in first[place].items():
            what = f"place {place} in a group of 2, seed 5, {kind}"
            assert_close(tensor(again[place][kind]), tensor(numbers), f"{what}, in a second run: number", atol=0.0)
            assert_close(shifted[place][kind], tensor(numbers), f"{what}, as rank {place + 1} of 3: number", atol=0.0)
            same = np.array_equal(other[place][kind], numbers)
            assert not same, f"{what}: the seeds 5 and 6 give the same numbers, expected different ones."


@check(
    hints=(
        "The optimizer was built before setup. Which tensors does it step, and which does the model use afterwards?",
        "Write into the parameters that are there instead of putting new ones into the model.",
    )
)
def check_an_older_optimizer_still_trains_the_model(student: Student, rng: np.random.Generator) -> None:
    """On two real ranks, an optimizer built before setup trains the model that starts as rank 0's."""
    weights, x = rng.normal(size=(2, 3)), rng.normal(size=(2, 4, 3))
    per_rank = [({"weight": tensor(weights[rank])}, tensor(x[rank]), 5, Group()) for rank in range(2)]
    expected = {"weight": tensor(weights[0] - 0.5 * x.sum(axis=(0, 1)))}
    for result in student.ranks("harness.trained", per_rank):
        mistakes = {"weight": weights[0]}
        assert_close(result.value, expected, f"rank {result.rank}, after one step: model", mistakes=mistakes)

"""Hidden checks of sharded_optimizer, in teaching order: values, odd groups, then memory and traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, check, tensor

SIZES = (25, 16, 7, 40, 1)
Arrays = list[np.ndarray[Any, Any]]


def adamw(values: Arrays, steps: list[list[Any]], lr: float, decay: float) -> Arrays:
    """Return the parameters after AdamW's steps by its formula in numpy; None as gradient leaves one as it is."""
    found = []
    for i, start in enumerate(values):
        x, m, v, t = start.copy(), np.zeros_like(start), np.zeros_like(start), 0
        for g in (step[i] for step in steps if step[i] is not None):
            t, m, v = t + 1, 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x * (1 - lr * decay) - lr * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        found.append(x)
    return found


def drawn(rng: np.random.Generator, sizes: Sequence[int], steps: int) -> tuple[Arrays, list[list[Any]]]:
    """Return values, and gradients for some steps; of five parameters the last but one never has one."""
    none = len(sizes) - 2 if len(sizes) == 5 else -1
    kept = [[None if i == none else rng.normal(size=size) for i, size in enumerate(sizes)] for _ in range(steps)]
    return [rng.normal(size=size) for size in sizes], kept


def sent(values: Arrays, steps: list[list[Any]]) -> tuple[Any, Any]:
    """Return both as tensors."""
    return [tensor(v) for v in values], [[None if g is None else tensor(g) for g in step] for step in steps]


def assert_trained(student: Student, rng: np.random.Generator, groups: Sequence[Group], sizes: Sequence[int]) -> None:
    """Train for five steps, each rank in its group, each group with data of its own, and compare all parameters."""
    kinds = list(dict.fromkeys(groups))
    data = [drawn(rng, sizes, 5) for _ in kinds]
    options = {"lr": 0.02, "weight_decay": 0.3}
    per_rank = [(*sent(*data[kinds.index(group)]), options, group) for group in groups]
    for result in student.simulated("harness.trained", per_rank):
        values, steps = data[kinds.index(groups[result.rank])]
        expected = adamw(values, steps, 0.02, 0.3)
        for i, (actual, right) in enumerate(zip(result.value, expected, strict=True)):
            what = f"{len(groups)} ranks, rank {result.rank}: parameter {i} after 5 steps"
            assert_close(actual, tensor(right), what, mistakes={"its value before the steps": values[i]})


@check(
    hints=("Alone, ShardedAdamW is AdamW. Are lr and weight_decay handed on, and does every parameter get its step?",),
)
def check_one_rank_is_plain_adamw(student: Student, rng: np.random.Generator) -> None:
    """On one rank five steps give what AdamW gives; a parameter without gradient stays as it is."""
    assert_trained(student, rng, [Group()], SIZES)


@check(
    hints=(
        "Each parameter is stepped where its moments are. How do the other ranks learn its new value?",
        "Which rank sends parameter i? All ranks must agree, and all must take part in each of the broadcasts.",
    )
)
def check_all_ranks_hold_the_new_values(student: Student, rng: np.random.Generator) -> None:
    """On two and three ranks every rank ends with all parameters as AdamW gives them."""
    for world_size in (2, 3):
        assert_trained(student, rng, [Group()] * world_size, SIZES)


@check(
    hints=("With more ranks than parameters somebody owns none. What does AdamW say to an empty list?",),
)
def check_more_ranks_than_parameters(student: Student, rng: np.random.Generator) -> None:
    """Five ranks train a model of two parameters."""
    assert_trained(student, rng, [Group()] * 5, (6, 3))


@check(
    hints=(
        "Member 0 of a group need not be global rank 0. Which of the two do get_rank(group) and broadcast's src count?",
        "dist.get_global_rank(group, member) translates; broadcast also takes group_src.",
    )
)
def check_two_groups_train_two_models(student: Student, rng: np.random.Generator) -> None:
    """Ranks 0, 2 and 4 train one model while 1 and 3 train another."""
    odd, even = Group((1, 3)), Group((0, 2, 4))
    assert_trained(student, rng, [even, odd, even, odd, even], SIZES)


@check(
    hints=(
        "Which moments does a rank use again at its next step, and which does another rank use?",
        "Give AdamW only the parameters that this rank owns. Which are they, so that sizes come out nearly even?",
        "Give the largest parameter first, always to the rank that has fewest elements so far.",
    ),
    judged_by="observation",
)
def check_each_rank_holds_its_share(student: Student, rng: np.random.Generator) -> None:
    """Between steps a rank holds at most its share of the moments, the moments of one parameter, and the counters."""
    for world_size, sizes in ((2, (400, 300, 25, 16)), (4, (40, 1, 40, 1, 40, 1, 40, 1) * 3), (3, (90, 1, 1) * 4)):
        per_rank = [(*sent(*drawn(rng, sizes, 2)), Group())] * world_size
        for result in student.simulated("harness.metered", per_rank):
            held, total = result.value[0], sum(sizes)
            most = 2 * total // world_size + 2 * max(sizes) + len(sizes)
            what = f"rank {result.rank} of {world_size} holds {held} elements for {total} of parameters"
            whole = "\nthat is what AdamW without sharding holds" if held == 2 * total + len(sizes) else ""
            assert held <= most, f"{what}, expected at most {most}.{whole}"


@check(
    hints=("Moments that are created for all parameters and dropped afterwards were in memory all the same.",),
    judged_by="observation",
)
def check_nobody_ever_holds_all_moments(student: Student, rng: np.random.Generator) -> None:
    """From construction through the first step a rank never holds as much as all moments."""
    sizes = (40, 30, 50, 20, 40, 30, 50, 20)
    for result in student.simulated("harness.metered", [(*sent(*drawn(rng, sizes, 1)), Group())] * 4):
        peak, whole = result.value[1], 2 * sum(sizes)
        what = f"rank {result.rank} of 4 holds up to {peak} elements beside parameters and gradients"
        assert peak < whole, f"{what}, expected fewer than all {whole} moments."


@check(
    hints=(
        "How many elements does each of your collectives move, and does every rank need all of that from every rank?",
        "A sum over ranks moves twice what a broadcast or an all-gather moves: it reduces first.",
    ),
    judged_by="network",
)
def check_a_step_moves_the_model_once(student: Student, rng: np.random.Generator) -> None:
    """In a ring of four a rank sends at most 5/4 of the model's elements in a step."""
    values, steps = drawn(rng, (40, 30, 50, 20, 40, 30, 50, 20), 1)
    for result in student.simulated("harness.trained", [(*sent(values, steps), {}, Group())] * 4):
        moved, most = sum(call.ring_bytes for call in result.calls), 5 * 280 * 8 // 4
        assert moved <= most, f"rank {result.rank} of 4 sends {moved} bytes in a step, expected at most {most}."


@check(hints=("All ranks reach the same collectives in the same order, owners of nothing too.",), guards="gloo")
def check_real_ranks_agree(student: Student, rng: np.random.Generator) -> None:
    """Two real ranks hold what AdamW gives."""
    (values, steps), options = drawn(rng, SIZES, 2), {"lr": 0.02, "weight_decay": 0.3}
    for result in student.ranks("harness.trained", [(*sent(values, steps), options, Group())] * 2):
        for i, (actual, right) in enumerate(zip(result.value, adamw(values, steps, 0.02, 0.3), strict=True)):
            assert_close(actual, tensor(right), f"rank {result.rank}: parameter {i}")

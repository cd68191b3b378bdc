"""Hidden checks of conjugate_operators, in teaching order: forward, g back, f back, layouts, whole blocks, the cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
ONE, TWO, FIVE = [(0,)], [(0, 1)] * 2, [(0, 1, 2)] * 3 + [(3, 4)] * 2
PARTS = {"output": "output of", "gradient": "gradient back through", "x": "x after", "slope": "gradient given to"}
NAMES = ("copy_to_group", "reduce_from_group")


def assert_operator(
    student: Student,
    rng: np.random.Generator,
    name: str,
    groups: list[tuple[int, ...]],
    *parts: str,
    layout: str = "plain",
) -> list[RankResult]:
    """Send values through an operator and slopes back, and compare parts of what each rank then has."""
    xs, slopes = rng.normal(size=(2, len(groups), 2, 3)).round(2)
    replicated = xs if name == "copy_to_group" else slopes
    for rank, own in enumerate(groups):  # replicated means equal in a group; everything else differs
        replicated[rank] = replicated[own[0]]
    per_rank = [(name, layout, tensor(xs[r]), tensor(slopes[r]), Group(own)) for r, own in enumerate(groups)]
    results = student.simulated("harness.through", per_rank)
    for result, part in ((result, part) for result in results for part in parts):
        own, sent = list(groups[result.rank]), xs if part in {"output", "x"} else slopes
        mine, total = sent[result.rank], sent[own].sum(axis=0)
        mistakes = {
            f"the sum over the {len(own)} ranks": total,
            "their mean": total / len(own),
            "this rank's own": mine,
        }
        sums = (part, name) in {("output", "reduce_from_group"), ("gradient", "copy_to_group")}
        what = f"rank {result.rank} of {len(groups)}: {PARTS[part]} {name}"
        assert_close(result.value[part], tensor(total if sums else mine), what, mistakes=mistakes)
    return results


@check(hints=("A group of one: what is a sum over it, in either direction?",))
def check_one_rank_changes_nothing(student: Student, rng: np.random.Generator) -> None:
    """On one rank values and gradients pass both operators as they are."""
    for name in NAMES:
        assert_operator(student, rng, name, ONE, "output", "gradient")


@check(hints=("Forward was right in the starter: f hands on what it gets, g adds up what its group's ranks have.",))
def check_forward_copies_and_sums(student: Student, rng: np.random.Generator) -> None:
    """Forward copy_to_group returns x and reduce_from_group the group's sum."""
    for name in NAMES:
        assert_operator(student, rng, name, FIVE, "output")


@check(
    hints=(
        "Every rank holds the same sum and computes the same loss from it. How many losses are there?",
        "The gradient of the sum is already here, on every rank. Adding its copies up counts one loss t times.",
    )
)
def check_the_sum_has_one_gradient(student: Student, rng: np.random.Generator) -> None:
    """Back through reduce_from_group each rank's x gets the gradient of the sum, once."""
    for groups in (TWO, FIVE):
        assert_operator(student, rng, "reduce_from_group", groups, "gradient")


@check(
    hints=(
        "x was used in t branches, one on each rank. Which gradients make up that of x?",
        "The identity needs a backward pass of its own: torch.autograd.Function, and the group remembered in ctx.",
    )
)
def check_a_copy_gathers_its_gradients(student: Student, rng: np.random.Generator) -> None:
    """Back through copy_to_group x gets, on every rank, the sum of the ranks' gradients."""
    for groups in (TWO, FIVE):
        assert_operator(student, rng, "copy_to_group", groups, "gradient")


@check(
    hints=(
        "The gradient of a sum() is one number seen from every place; a transposed tensor is a view. What is summed?",
        "contiguous() returns the tensor itself if it can, else a copy. Reduce a clone, and hand back that same clone.",
    )
)
def check_any_memory_layout(student: Student, rng: np.random.Generator) -> None:
    """Transposed tensors and expanded gradients are summed like all others."""
    assert_operator(student, rng, "reduce_from_group", TWO, "output", layout="transposed")
    assert_operator(student, rng, "copy_to_group", TWO, "gradient", layout="transposed")
    per_rank = [(tensor(rng.normal(size=(2, 3))), Group()) for _ in range(3)]
    for result in student.simulated("harness.expanded", per_rank):
        what = f"rank {result.rank} of 3: gradient of x in copy_to_group(x).sum()"
        assert_close(result.value, tensor(np.full((2, 3), 3.0)), what, mistakes={"this rank's own": np.ones((2, 3))})


@check(
    hints=("all_reduce writes into the tensor it is given, which others may still need: whose tensor is that?",),
    judged_by="observation",
)
def check_inputs_are_left_alone(student: Student, rng: np.random.Generator) -> None:
    """Neither x nor the gradient that comes back is changed in place."""
    for name in NAMES:
        assert_operator(student, rng, name, TWO, "x", "slope")


@check(
    hints=(
        "A residual connection brings a whole gradient past a block. Which one is partial, and where must that end?",
    )
)
def check_stacked_blocks_equal_one_process(student: Student, rng: np.random.Generator) -> None:
    """On two and four real ranks, two residual blocks have one process's gradients: of the input and of all shards."""
    for world_size in (2, 4):
        shapes = [(3, 4), (4, 8), (8, 4), (4, 8), (8, 4), (3, 4)]
        x, *weights, slope = (rng.normal(size=shape) / 2 for shape in shapes)
        cuts = [np.array_split(weight, world_size, axis=1 - index % 2) for index, weight in enumerate(weights)]
        per_rank = [(tensor(x), [tensor(cut[rank]) for cut in cuts]) for rank in range(world_size)]
        results = student.ranks("harness.blocks", per_rank, common=(tensor(slope), Group()))
        hidden = [np.tanh(x @ weights[0])]
        second = x + hidden[0] @ weights[1]
        hidden.append(np.tanh(second @ weights[2]))
        back, gradients = slope, []
        for start, block in ((second, 1), (x, 0)):
            a, b = weights[2 * block : 2 * block + 2]
            inner = back @ b.T * (1 - hidden[block] ** 2)
            gradients = [start.T @ inner, hidden[block].T @ back, *gradients]
            back = back + inner @ a.T
        for result in results:
            where = f"rank {result.rank} of {world_size}: gradient of"
            assert_close(result.value["x"], tensor(back), f"{where} x")
            for index, gradient in enumerate(gradients):
                mine = np.array_split(gradient, world_size, axis=1 - index % 2)[result.rank]
                assert_close(result.value["shards"][index], tensor(mine), f"{where} shard {index} of a0, b0, a1, b1")


@check(
    hints=("Count the collectives of each operator. Which bring a rank something that it does not have already?",),
    judged_by="network",
)
def check_one_all_reduce_a_direction(student: Student, rng: np.random.Generator) -> None:
    """An operator communicates in one direction only, and there by a single all-reduce."""
    for name in NAMES:
        for result in assert_operator(student, rng, name, [(0, 1, 2)] * 3):
            what = f"rank {result.rank} of 3: collectives of {name}, forward and backward"
            made = [f"{call.op} of {np.prod(call.shape)} numbers" for call in result.calls]
            assert_equal(made, ["all_reduce of 6 numbers"], what)

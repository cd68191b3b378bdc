"""Hidden checks of bias_once, in teaching order: the output on one rank, two, more and in groups, then gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
N, OUTPUTS = 4, 3


def columns(matrix: Array, size: int, place: int) -> Array:
    """Return the columns of member `place` of a group; the shares differ in size if they must."""
    return np.array_split(matrix, size, axis=1)[place]


def run_layer(
    student: Student, rng: np.random.Generator, groups: list[tuple[int, ...]], with_bias: bool = True
) -> tuple[list[RankResult], dict[str, Array]]:
    """Run one layer on simulated ranks, rank r in the group `groups[r]`; return the results and the whole tensors."""
    shapes = {"x": (N, 7), "weight": (OUTPUTS, 7), "bias": (OUTPUTS,), "slope": (N, OUTPUTS)}
    whole = {name: np.array(rng.normal(size=shape)).round(2) for name, shape in shapes.items()}
    per_rank = []
    for rank, own in enumerate(groups):
        pieces = [tensor(columns(whole[name], len(own), own.index(rank))) for name in ("x", "weight")]
        bias = tensor(whole["bias"]) if with_bias else None
        per_rank.append((*pieces, bias, tensor(whole["slope"]), Group(own)))
    return student.simulated("harness.layer", per_rank), whole


def assert_outputs(
    student: Student, rng: np.random.Generator, groups: list[tuple[int, ...]], with_bias: bool = True
) -> None:
    """Compare every rank's output with that of one process."""
    results, whole = run_layer(student, rng, groups, with_bias)
    bias = whole["bias"] * with_bias
    product = whole["x"] @ whole["weight"].T
    for result in results:
        size = len(groups[result.rank])
        mistakes = {
            f"the layer with its bias added {size} times": product + size * bias,
            f"the layer with 1/{size} of its bias": product + bias / size,
            "the layer with half of its bias": product + bias / 2,
            "the layer without its bias": product,
        }
        what = f"rank {result.rank} of {len(groups)}: output"
        assert_close(result.value["output"], tensor(product + bias), what, mistakes=mistakes if with_bias else None)


@check(
    hints=(
        "One rank has the whole weight, and nobody to add its products to. What is left?",
        "Add the bias exactly once, and nothing if it is None.",
    )
)
def check_one_rank_is_a_linear_layer(student: Student, rng: np.random.Generator) -> None:
    """One rank alone computes x @ weight.T + bias."""
    assert_outputs(student, rng, [(0,)])


@check(
    hints=(
        "The ranks hold different pieces of the weight. What do they hold of the bias, and what does a sum make of it?",
        "Everything that is added before a sum over t ranks is added t times. Where does that not happen?",
    )
)
def check_the_bias_is_added_once(student: Student, rng: np.random.Generator) -> None:
    """On two ranks the bias is in the output once."""
    assert_outputs(student, rng, [(0, 1)] * 2)


@check(
    hints=(
        "Which number in your code should follow the number of ranks in the group, and would it be there at all?",
        "Five ranks may form a group of three and one of two: sum over the group, not over the world.",
    )
)
def check_any_number_of_ranks(student: Student, rng: np.random.Generator) -> None:
    """Four ranks add it once too, and so do a group of three ranks and one of two beside it."""
    assert_outputs(student, rng, [(0, 1, 2, 3)] * 4)
    assert_outputs(student, rng, [(0, 1, 2)] * 3 + [(3, 4)] * 2)


@check(hints=("What does your code do with a bias of None? A layer without bias is the product alone.",))
def check_a_layer_may_have_no_bias(student: Student, rng: np.random.Generator) -> None:
    """With None for the bias the output is the product alone, on one rank and on two."""
    for world_size in (1, 2):
        assert_outputs(student, rng, [tuple(range(world_size))] * world_size, with_bias=False)


@check(
    hints=(
        "Each rank computes the whole loss from its copy of the output. How does the loss answer to this rank's bias?",
        "A factor in front of the bias is a factor in front of its gradient. Is there one, on any rank?",
        "Add the whole bias on every rank, where the sum over ranks can no longer see it.",
    )
)
def check_the_bias_gradient_is_whole(student: Student, rng: np.random.Generator) -> None:
    """On every rank the gradient of its copy of the bias is that of one process, and the other gradients are too."""
    for world_size in (2, 3):
        results, whole = run_layer(student, rng, [tuple(range(world_size))] * world_size)
        gradient = whole["slope"].sum(axis=0)
        mistakes = {
            f"1/{world_size} of the whole gradient": gradient / world_size,
            f"{world_size} times the whole gradient": gradient * world_size,
            "zero: this rank's copy does not enter the output": gradient * 0,
        }
        for result in results:
            what = f"rank {result.rank} of {world_size}: gradient of"
            found = result.value["gradients"]
            assert_close(found["bias"], tensor(gradient), f"{what} bias", mistakes=mistakes)
            for name, other in (("x", whole["slope"] @ whole["weight"]), ("weight", whole["slope"].T @ whole["x"])):
                mine = columns(other, world_size, result.rank)
                assert_close(
                    found[name],
                    tensor(mine),
                    f"{what} {name}_shard",
                    mistakes={"t times the right one": mine * world_size},
                )


@check(
    hints=(
        "The first output is right, and the later ones are not. What did the first call leave behind?",
        "The bias belongs to the optimizer. Compute with it, but write nothing into it.",
    )
)
def check_three_steps_keep_the_copies_equal(student: Student, rng: np.random.Generator) -> None:
    """On two and three real ranks, three SGD steps leave every copy of the bias where one process ends."""
    for world_size in (2, 3):
        x, weight, bias = (rng.normal(size=shape) for shape in ((N, 6), (OUTPUTS, 6), OUTPUTS))
        targets = rng.normal(size=(3, N, OUTPUTS))
        pieces = [tuple(tensor(columns(each, world_size, rank)) for each in (x, weight)) for rank in range(world_size)]
        results = student.ranks("harness.trained", pieces, common=(tensor(bias), list(map(tensor, targets)), Group()))
        speed = [np.zeros_like(weight), np.zeros_like(bias)]
        for target in targets:
            error = 2 * (x @ weight.T + bias - target) / target.size  # d loss / d output
            speed = [0.9 * speed[0] + error.T @ x, 0.9 * speed[1] + error.sum(axis=0)]
            weight, bias = weight - 0.1 * speed[0], bias - 0.1 * speed[1]
        for result in results:
            where = f"rank {result.rank} of {world_size}, three steps:"
            assert_close(result.value["bias"], tensor(bias), f"{where} bias")
            assert_close(
                result.value["weight"], tensor(columns(weight, world_size, result.rank)), f"{where} weight_shard"
            )

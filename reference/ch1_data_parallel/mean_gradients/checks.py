"""Hidden checks of mean_gradients, in teaching order: one rank, two, more, subgroups, then whole models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, check, tensor

Gradients = dict[str, np.ndarray[Any, Any] | None]
WORLD = Group()


def assert_means(student: Student, gradients: Any, groups: Sequence[tuple[int, ...]] = ()) -> None:
    """Give each simulated rank one of `gradients` and compare what it holds afterwards with the mean over its group."""
    world_size = len(gradients)
    groups = groups or [tuple(range(world_size))] * world_size
    per_rank = [(tensor(own), Group(group)) for own, group in zip(gradients, groups, strict=True)]
    for result in student.simulated("mean_all_reduce", per_rank):
        members = gradients[list(groups[result.rank])]
        total, mean = members.sum(axis=0), members.mean(axis=0)
        last_weighs_most = np.average(members, axis=0, weights=[1, *2 ** np.arange(len(members) - 1)])
        mistakes = {
            f"the sum over the {len(members)} ranks": total,
            f"the sum divided by {len(members)} twice": mean / len(members),
            "half of the sum": total / 2,
            "a mean of means, in which the last rank weighs most": last_weighs_most,
            f"the group's sum divided by all {world_size} ranks": total / world_size,
            f"the mean over all {world_size} ranks": gradients.mean(axis=0),
            "this rank's own gradient": gradients[result.rank],
        }
        assert_close(result.value, tensor(mean), f"rank {result.rank}: gradient", rtol=1e-7, mistakes=mistakes)


def assert_synced(student: Student, gradients: Sequence[Gradients], frozen: Sequence[str] = ()) -> None:
    """Synchronise these gradients on simulated ranks and compare every parameter's gradient and value on each."""
    shapes = {name: own.shape for rank in gradients for name, own in rank.items() if own is not None}
    parameters = {name: tensor(np.ones(shape)) for name, shape in [*shapes.items(), *((name, 2) for name in frozen)]}
    per_rank = [({name: None if own is None else tensor(own) for name, own in rank.items()},) for rank in gradients]
    for result in student.simulated("harness.synced", per_rank, common=(parameters, list(frozen), WORLD)):
        after, where = result.value, f"rank {result.rank}"
        thawed = [name for name in frozen if after[name][0] is not None]
        assert not thawed, f"{where}: the frozen parameter {thawed[0]} has a gradient, expected None as before."
        for name, shape in shapes.items():
            present = [own[name] for own in gradients if own[name] is not None]
            known = {"the mean over the ranks that have one": np.mean(present, axis=0), "one rank's own": present[0]}
            mean = np.sum(present, axis=0) / len(gradients)
            assert_close(after[name][0], tensor(mean), f"{where}: {name}.grad", mistakes=known)
            assert_close(after[name][1], tensor(np.ones(shape)), f"{where}: the value of {name}")


@check(
    hints=(
        "What is the mean of one gradient? Whatever the number of ranks, the answer looks like the question.",
        "Return a tensor of the gradient's own shape and dtype: the mean is over ranks, not over elements.",
    )
)
def check_one_rank_keeps_its_gradient(student: Student, rng: np.random.Generator) -> None:
    """On one rank the mean is the gradient itself, in its shape and dtype."""
    gradients = [tensor(rng.normal(size=shape), dtype) for shape in ((2, 3), 4, ()) for dtype in ("float32", "float64")]
    [result] = student.simulated("harness.means", [(gradients, WORLD)])
    assert_close(result.value, gradients, "of several gradients on one rank, the mean of gradient")


@check(
    hints=(
        "all_reduce adds. What turns a sum over the ranks into a mean?",
        "Divide once, on every rank: by the number of ranks whose gradients were added up.",
    )
)
def check_every_rank_holds_the_mean(student: Student) -> None:
    """Every rank ends with the mean of all ranks' gradients."""
    assert_means(student, np.array([[1, 5], [3, -1]], dtype=np.float32))


@check(
    hints=(
        "Nothing in the contract says two. Which number in your code should follow the number of ranks?",
        "Averaging averages gives the last one the largest vote: add all gradients up first, then divide once.",
    )
)
def check_any_number_of_ranks(student: Student, rng: np.random.Generator) -> None:
    """Three and five ranks share one mean too, each rank with the same weight."""
    for world_size in (3, 5):
        assert_means(student, rng.normal(size=(world_size, 7)).round(3))


@check(
    hints=(
        "Five ranks form a group of three and one of two. Whose gradients were added, and how many are they?",
        "Without an argument, get_world_size counts all ranks. Ask it about the group.",
    )
)
def check_a_group_has_a_mean_of_its_own(student: Student, rng: np.random.Generator) -> None:
    """In a subgroup the mean is over that group's ranks, and the others do not count."""
    assert_means(student, rng.normal(size=(5, 3)).round(3), groups=[(0, 1, 2)] * 3 + [(3, 4)] * 2)


@check(
    hints=(
        "Matrices, vectors and single numbers are all parameters. Which of them does your loop reach?",
        "The optimizer reads parameter.grad. Is the mean there, or only in a variable of yours?",
        "Whether a parameter is trained is in requires_grad; a missing gradient can have another reason.",
    )
)
def check_every_trained_parameter_gets_the_mean(student: Student, rng: np.random.Generator) -> None:
    """Each trained parameter has the mean gradient in .grad; frozen ones have none, and no value changes."""
    shapes = {"weight": (2, 3), "bias": (2,), "scale": ()}
    gradients = [{name: np.array(rng.normal(size=shape)) for name, shape in shapes.items()} for _ in range(3)]
    assert_synced(student, gradients, frozen=["body"])


@check(
    hints=(
        "A collective waits for all ranks. Does each of your ranks make the same calls, whatever its gradients are?",
        "Let a rank without a gradient take part with zeros, so that every rank reduces every trainable parameter.",
        "The big batch counts samples that did not use a parameter as zeros: divide by all ranks of the group.",
    )
)
def check_a_missing_gradient_counts_as_zero(student: Student, rng: np.random.Generator) -> None:
    """A rank without a gradient takes part with zeros and holds the mean afterwards, and nobody waits for ever."""
    first, second = rng.normal(size=(2, 3, 4)).round(3)
    missing: list[Gradients] = [{"first": first[0]}, {"second": second[1]}, {"first": first[2], "second": second[2]}]
    assert_synced(student, [{"first": None, "second": None} | rank for rank in missing])


@check(
    hints=(
        "The first step is right by now. What does your code remember from one step to the next?",
        "zero_grad drops the gradient tensors and backward makes new ones: look at parameter.grad anew in each step.",
    )
)
def check_three_steps_equal_the_combined_batch(student: Student, rng: np.random.Generator) -> None:
    """On two and four real ranks, three SGD steps with momentum end where one process ends with all the data."""
    for world_size in (2, 4):
        x, y = (rng.normal(size=(world_size, 3, 4, features)) for features in (3, 2))  # rank, step, sample
        weight, bias = rng.normal(size=(2, 3)), rng.normal(size=2)
        batches = [(list(map(tensor, x[rank])), list(map(tensor, y[rank]))) for rank in range(world_size)]
        results = student.ranks("harness.trained", batches, common=(tensor(weight), tensor(bias), WORLD))
        speed = [np.zeros_like(weight), np.zeros_like(bias)]
        for step in range(3):
            inputs, labels = x[:, step].reshape(-1, 3), y[:, step].reshape(-1, 2)  # those of all ranks
            error = 2 * (inputs @ weight.T + bias - labels) / labels.size  # d loss / d output
            speed = [0.9 * speed[0] + error.T @ inputs, 0.9 * speed[1] + error.sum(axis=0)]
            weight, bias = weight - 0.1 * speed[0], bias - 0.1 * speed[1]
        for result in results:
            where = f"rank {result.rank} of {world_size}, three steps: model"
            assert_close(result.value, {"weight": tensor(weight), "bias": tensor(bias)}, where)

"""Hidden checks of tied_ends, in teaching order: the start, gradients, the middle, replicas, the norm, training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
SHAPE = (4, 2)  # of the embedding


def groups_of(ranks: int, replicas: int, rank: int) -> list[Group]:
    """Return replicas, ends and pipeline of a rank; pipeline d has the ranks d * ranks to d * ranks + ranks - 1."""
    d, place = divmod(rank, ranks)
    pipeline = tuple(range(d * ranks, (d + 1) * ranks))
    ends = tuple(dict.fromkeys((pipeline[0], pipeline[-1])))
    return [Group(tuple(range(place, ranks * replicas, ranks))), Group(ends), Group(pipeline)]


def is_end(place: int, ranks: int) -> bool:
    """Return whether a stage has the embedding."""
    return place in (0, ranks - 1)


def assert_reduced(student: Student, rng: np.random.Generator, ranks: int, replicas: int) -> None:
    """Reduce gradients that differ on each rank and compare those of every rank."""
    bodies, tied = rng.normal(size=(replicas, ranks, 3)), rng.normal(size=(replicas, ranks, *SHAPE))
    per_rank = []
    for rank in range(ranks * replicas):
        d, place = divmod(rank, ranks)
        own = tensor(tied[d, place]) if is_end(place, ranks) else None
        per_rank.append((tensor(bodies[d, place]), own, *groups_of(ranks, replicas, rank)[:2]))
    means, places = tied.mean(axis=0), sorted({0, ranks - 1})
    total = means[places].sum(axis=0)
    for result in student.simulated("harness.reduced", per_rank):
        d, place = divmod(result.rank, ranks)
        where = f"stage {place} of {ranks}, replica {d} of {replicas}:"
        known = {"this stage's use of the embedding only": means[place], "the mean of the two uses": total / 2}
        known |= {"the first stage's use only": means[0], "the last stage's use only": means[-1]}
        known |= {"the sum of this pipeline's two, without the other replicas": tied[d, places].sum(axis=0)}
        mistakes = {said: value for said, value in known.items() if not np.array_equal(value, total)}
        assert_close(result.value[0], tensor(bodies[:, place].mean(axis=0)), f"{where} gradient of the body")
        if is_end(place, ranks):
            assert_close(result.value[1], tensor(total), f"{where} gradient of the embedding", mistakes=mistakes)


def assert_trained(
    student: Student, rng: np.random.Generator, ranks: int, replicas: int, max_norm: float, *, gloo: bool = False
) -> None:
    """Take three steps with momentum and compare weights and norms of every rank with those of one process."""
    bodies, tied = rng.normal(size=(ranks, 2, 2)), rng.normal(size=(2, *SHAPE))
    tokens, targets = rng.integers(SHAPE[0], size=(replicas, 3, 5)), rng.normal(size=(replicas, 3, 5, SHAPE[0]))
    per_rank = []
    for rank in range(ranks * replicas):
        d, place = divmod(rank, ranks)
        batches = [(tensor(tokens[d, step]), tensor(targets[d, step])) for step in range(3)]
        own = tensor(tied[int(place > 0)]) if is_end(place, ranks) else None
        per_rank.append((place, batches, tensor(bodies[place]), own, groups_of(ranks, replicas, rank)))
    results = (student.ranks if gloo else student.simulated)("harness.trained", per_rank, common=(max_norm,))
    weights, norms = [tied[0], *bodies], []
    speeds = [np.zeros_like(weight) for weight in weights]
    for step in range(3):
        x, y = tokens[:, step].reshape(-1), targets[:, step].reshape(-1, SHAPE[0])
        kept = [weights[0][x]]
        for body in weights[1:]:
            kept.append(kept[-1] @ body)
        error = 2 * (kept[-1] @ weights[0].T - y) / y.size
        gradients, back = [error.T @ kept[-1]], error @ weights[0]
        for body, before in zip(weights[:0:-1], kept[-2::-1], strict=True):
            gradients.insert(1, before.T @ back)
            back = back @ body.T
        np.add.at(gradients[0], x, back)
        norms.append(math.sqrt(sum((gradient**2).sum() for gradient in gradients)))
        factor = min(1.0, max_norm / norms[-1])
        speeds = [0.9 * speed + factor * gradient for speed, gradient in zip(speeds, gradients, strict=True)]
        weights = [weight - 0.1 * speed for weight, speed in zip(weights, speeds, strict=True)]
    for result in results:
        d, place = divmod(result.rank, ranks)
        where = f"stage {place} of {ranks}, replica {d} of {replicas}, three steps:"
        assert_close(result.value["norms"], norms, f"{where} norm before clipping")
        if is_end(place, ranks):
            assert_close(result.value["tied"], tensor(weights[0]), f"{where} embedding")
        assert_close(result.value["body"], tensor(weights[1 + place]), f"{where} body")


@check(hints=("Whose embedding is the model's? The other end takes it over, into the tensor that the optimizer has.",))
def check_both_ends_start_with_the_first_ones_embedding(student: Student, rng: np.random.Generator) -> None:
    """After the start the last stage has the first stage's embedding."""
    for ranks in (1, 2, 3):
        tied = rng.normal(size=(ranks, *SHAPE))
        own = [tensor(tied[place]) if is_end(place, ranks) else None for place in range(ranks)]
        per_rank = [(own[rank], groups_of(ranks, 1, rank)[1]) for rank in range(ranks)]
        for result in student.simulated("harness.started", per_rank):
            if is_end(result.rank, ranks):
                assert_close(result.value, tensor(tied[0]), f"stage {result.rank} of {ranks}: embedding after start")


@check(
    hints=("One process has one gradient for both uses: their sum.", "Both ends need it, in .grad, before the step.")
)
def check_both_ends_get_the_sum_of_both_uses(student: Student, rng: np.random.Generator) -> None:
    """On both ends the embedding's gradient is the sum of its two uses."""
    assert_reduced(student, rng, 1, 1)
    assert_reduced(student, rng, 2, 1)


@check(hints=("Stages in the middle have no embedding and are not in `ends`. Who takes part in your collective?",))
def check_the_middle_has_no_part_in_it(student: Student, rng: np.random.Generator) -> None:
    """With stages in between the ends still get the sum, and the middle does not wait."""
    for ranks in (3, 4):
        assert_reduced(student, rng, ranks, 1)


@check(hints=("A mean over the replicas and a sum over the two uses: both, in either order, each over its own group.",))
def check_replicas_average_and_ends_add(student: Student, rng: np.random.Generator) -> None:
    """With two replicas the gradient is the sum over the ends of the mean over the replicas."""
    for ranks in (2, 3):
        assert_reduced(student, rng, ranks, 2)


@check(hints=("How often may one parameter on two ranks count? And on a single rank, which is both ends?",))
def check_the_embedding_counts_once_in_the_norm(student: Student, rng: np.random.Generator) -> None:
    """The norm is that of the whole model, each parameter counted once, on every rank."""
    for ranks in (1, 2, 3):
        bodies, tied = rng.normal(size=(ranks, 3)), rng.normal(size=SHAPE)
        per_rank = [
            (tensor(body), tensor(tied) if is_end(r, ranks) else None, Group()) for r, body in enumerate(bodies)
        ]
        once, body = (tied**2).sum(), (bodies**2).sum()
        for result in student.simulated("harness.norm", per_rank):
            known = {"the embedding counted twice": math.sqrt(body + 2 * once), "no embedding": math.sqrt(body)}
            known |= {"this stage's own norm": math.sqrt((bodies[result.rank] ** 2).sum() + once)} if ranks > 1 else {}
            assert_close(result.value, math.sqrt(body + once), f"rank {result.rank} of {ranks}: norm", mistakes=known)


@check(hints=("First the sum, then the norm, then one factor for all ranks, and never a factor above 1.",))
def check_training_equals_one_process(student: Student, rng: np.random.Generator) -> None:
    """Three clipped steps with momentum end, on every rank, where one process ends."""
    for ranks, replicas, max_norm in ((2, 1, 0.5), (3, 1, 1e9), (2, 2, 0.5), (1, 1, 0.5)):
        assert_trained(student, rng, ranks, replicas, max_norm)


@check(hints=("Simulated ranks agree already. What do you rely on that real ones do not do?",), guards="gloo")
def check_real_ranks(student: Student, rng: np.random.Generator) -> None:
    """Two real ranks train as one process does."""
    assert_trained(student, rng, 2, 1, 0.5, gloo=True)

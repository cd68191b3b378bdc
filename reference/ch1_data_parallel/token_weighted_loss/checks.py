"""Hidden checks of token_weighted_loss, in teaching order: one rank, equal shares, uneven, none, micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
Results = list[RankResult]
VOCABULARY, FEATURES = 5, 3


def labels_of(rng: np.random.Generator, tokens: int, ignored: int = 0) -> Array:
    """Return labels, some of them ignored, in random order."""
    return rng.permutation([*rng.integers(VOCABULARY, size=tokens), *[-100] * ignored])


def loss_of(logits: Array, labels: Array) -> tuple[float, Array, int]:
    """Return the sum of the tokens' losses, its gradient with respect to the logits, and the number of tokens."""
    kept, flat = (labels != -100).ravel(), logits.reshape(-1, VOCABULARY)
    picked = np.eye(VOCABULARY)[np.where(kept, labels.ravel(), 0)]
    p = np.exp(flat) / np.exp(flat).sum(axis=1, keepdims=True)
    losses = -np.log((p * picked).sum(axis=1))
    return float(losses[kept].sum()), ((p - picked) * kept[:, None]).reshape(logits.shape), int(kept.sum())


def assert_loss(student: Student, rng: np.random.Generator, labels: Sequence[Array], groups: Any = None) -> Results:
    """Compare gradient and reported loss of each simulated rank with those of one process with its group's tokens."""
    logits = [rng.normal(size=(*own.shape, VOCABULARY)) for own in labels]
    groups = groups or [tuple(range(len(labels)))] * len(labels)
    per_rank = [(tensor(z), tensor(y), Group(g)) for z, y, g in zip(logits, labels, groups, strict=True)]
    results = student.simulated("harness.graded", per_rank)
    for result in results:
        parts, p = [loss_of(logits[m], labels[m]) for m in groups[result.rank]], len(groups[result.rank])
        total, count = sum(part[0] for part in parts), max(1, sum(part[2] for part in parts))
        _, slope, mine = loss_of(logits[result.rank], labels[result.rank])
        what = f"rank {result.rank} of {len(labels)}, with {mine} of {count} tokens: the"
        means, loss, gradient = np.mean([s / max(1, n) for s, _, n in parts]), total / count, tensor(p * slope / count)
        known: dict[str, Any] = {"the mean of the ranks' means": means, f"{p} times the loss": p * loss}
        reported = result.value["reported"]
        assert_close(reported, loss, f"{what} loss to report", rtol=1e-6, mistakes=known)
        assert not getattr(reported, "requires_grad", False), f"{what} loss to report has a graph, expected none."
        known = {"the gradient of this rank's own mean": slope / max(1, mine), f"1/{p} of it": slope / count}
        assert_close(result.value["gradient"], gradient, f"{what} gradient of its logits", rtol=1e-6, mistakes=known)
    return results


@check(
    hints=(
        "On one rank the loss is an ordinary mean. Over which tokens? In any shape in front of the vocabulary?",
        "Labels of -100 add neither to the sum nor to the count.",
    )
)
def check_one_rank_takes_the_mean_over_its_tokens(student: Student, rng: np.random.Generator) -> None:
    """On one rank both losses are the mean over the tokens that are not ignored."""
    for shape in ((6,), (2, 3)):
        assert_loss(student, rng, [labels_of(rng, 4, ignored=2).reshape(shape)])


@check(
    hints=(
        "With equal shares the mean of means is right. By what are the gradients divided after your backward?",
        "Averaging divides by the number of ranks, so each rank's part has to be that many times larger before.",
    )
)
def check_equal_shares_give_the_global_mean(student: Student, rng: np.random.Generator) -> None:
    """With as many tokens on each rank, averaged gradients and the reported loss are the global batch's."""
    for ranks in (2, 4):
        assert_loss(student, rng, [labels_of(rng, 3) for _ in range(ranks)])


@check(
    hints=(
        "One token on this rank, a thousand on that one. How much does each weigh in your loss?",
        "Add up losses, add up tokens, over all ranks; divide once. Padding is no token.",
        "The ranks that count are those of the group.",
    )
)
def check_every_token_has_the_same_weight(student: Student, rng: np.random.Generator) -> None:
    """With different numbers of tokens a rank, every token of the group still counts once."""
    for counts in ((1, 1000), (2, 5, 1)):
        assert_loss(student, rng, [labels_of(rng, tokens, ignored=3) for tokens in counts])
    assert_loss(student, rng, [labels_of(rng, tokens) for tokens in (2, 5, 1, 7, 3)], [(0, 1, 2)] * 3 + [(3, 4)] * 2)


@check(
    hints=(
        "A rank whose labels are all -100 has a sum of 0 over 0 tokens. What is its mean?",
        "Divide by the tokens of all ranks, at least 1, and let every rank make the same calls and a backward.",
    )
)
def check_no_token_is_no_harm(student: Student, rng: np.random.Generator) -> None:
    """A rank without tokens has zero gradients and the others theirs; without any token the loss is 0."""
    for counts in ((3, 0, 2), (0, 1), (0, 0)):
        assert_loss(student, rng, [labels_of(rng, tokens, ignored=2) for tokens in counts])


def assert_accumulated(student: Student, rng: np.random.Generator, counts: Sequence[Sequence[int]]) -> Results:
    """Compare `accumulate` on tokens by rank and micro-batch: ranks 1, 2, ... as a group, rank 0 alone beside them."""
    weight, p = rng.normal(size=(VOCABULARY, FEATURES)), len(counts)
    batches = [[(rng.normal(size=(n + 2, FEATURES)), labels_of(rng, n, ignored=2)) for n in rank] for rank in counts]
    pairs = [[(tensor(x), tensor(y)) for x, y in own] for own in batches]
    per_rank = [(own, tensor(weight), Group(tuple(range(1, p + 1)))) for own in pairs]
    _, *results = student.simulated("harness.accumulated", [(pairs[0], tensor(weight), Group((0,))), *per_rank])
    parts = [[(x, *loss_of(x @ weight.T, y)) for x, y in own] for own in batches]
    every = [part for own in parts for part in own]
    total, count = sum(part[1] for part in every), max(1, sum(part[3] for part in every))
    known: dict[str, Any] = {"the mean of the micro-batches' means": np.mean([s / max(1, n) for _, s, _, n in every])}
    for result, own in zip(results, parts, strict=True):
        what = f"{p} ranks with tokens {counts} by micro-batch, rank {result.rank - 1}: the"
        reported, slope = result.value["reported"], np.sum([g.T @ x for x, _, g, _ in own], axis=0)
        assert_close(reported, total / count, f"{what} loss to report", rtol=1e-6, mistakes=known)
        assert not getattr(reported, "requires_grad", False), f"{what} loss to report has a graph, expected none."
        assert_close(result.value["gradient"], tensor(p * slope / count), f"{what} gradient of the weight", atol=1e-6)
    return results


@check(
    hints=(
        "Two micro-batches are nothing else than two ranks. Whose tokens must be known before the first backward?",
        "Count the tokens of all micro-batches of all ranks first, then divide each micro-batch's sum by that.",
    )
)
def check_micro_batches_are_counted_together(student: Student, rng: np.random.Generator) -> None:
    """Over ranks and micro-batches of any size, `accumulate` gives the global batch's gradient and loss."""
    for counts in ([[1, 6, 2]], [[3, 3], [3, 3]], [[1, 7], [4, 0], [9, 2]], [[0, 0], [5, 1]]):
        assert_accumulated(student, rng, counts)


@check(
    hints=(
        "How many all-reduces does one step make with four micro-batches, and of what?",
        "One for the number of tokens before the first backward, one for the sum of the losses after the last.",
    ),
    judged_by="network",
)
def check_the_price_is_two_numbers(student: Student, rng: np.random.Generator) -> None:
    """One call makes at most two collectives, each of one or two numbers."""
    one = assert_loss(student, rng, [labels_of(rng, 3), labels_of(rng, 5)])
    for result in (*one, *assert_accumulated(student, rng, [[1, 2, 3, 4], [2, 0, 2, 1]])):
        made = [f"{call.op} of {call.payload_bytes} bytes" for call in result.calls]
        what = "token_loss" if result in one else "accumulate with 4 micro-batches"
        told = f"rank {result.rank}: {what} makes {len(made)} collectives ({', '.join(made[:4])})"
        assert len(made) <= 2, f"{told}, expected at most two."
        assert all(call.payload_bytes <= 16 for call in result.calls), f"{told}, expected 16 bytes at most in each."

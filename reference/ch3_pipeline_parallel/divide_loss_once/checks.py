"""Hidden checks of divide_loss_once, in teaching order: one rank, several, unequal micro-batches, then the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import RankResult, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
Batch = list[tuple[Array, Array]]  # micro-batches: inputs [tokens, width], labels [tokens]
WIDTH = 3


def drawn(rng: np.random.Generator, sizes: Sequence[int], ignored: Sequence[int] = ()) -> Batch:
    """Return micro-batches of these sizes; the first `ignored[i]` tokens of micro-batch i have no label."""
    batch = [(rng.normal(size=(size, WIDTH)), rng.integers(WIDTH, size=size)) for size in sizes]
    for (_, label), number in zip(batch, ignored, strict=False):
        label[:number] = -100
    return batch


def oracle(stages: list[tuple[Array, Array]], batch: Batch, weights: Array | None = None) -> tuple[float, list[Any]]:
    """Return loss and gradients of one process; `weights` of the micro-batches' means, by default their tokens."""
    x, label = (np.concatenate(parts) for parts in zip(*batch, strict=True))
    counts = np.array([(part != -100).sum() for _, part in batch])
    weights = counts / counts.sum() if weights is None else weights
    each = np.repeat(weights / np.maximum(counts, 1), [len(part) for _, part in batch]) * (label != -100)
    kept = [x]
    for place, (weight, bias) in enumerate(stages):
        y = kept[-1] @ weight.T + bias
        kept.append(y if place == len(stages) - 1 else np.tanh(y))
    shifted = np.exp(kept[-1] - kept[-1].max(axis=1, keepdims=True))
    p = shifted / shifted.sum(axis=1, keepdims=True)
    hit = np.eye(WIDTH)[np.where(label == -100, 0, label)]
    loss, gradient, found = float(-(np.log(p) * hit).sum(axis=1) @ each), (p - hit) * each[:, None], []
    for place in reversed(range(len(stages))):
        found.insert(0, {"weight": gradient.T @ kept[place], "bias": gradient.sum(axis=0)})
        gradient = (gradient @ stages[place][0]) * (1 - kept[place] ** 2)
    return loss, found


def assert_gradients(
    student: Student, rng: np.random.Generator, ranks: int, batches: list[Batch], *, gloo: bool = False
) -> tuple[list[RankResult], list[float]]:
    """Let each rank hold a stage, compare all gradients with those of one process; return results and losses."""
    stages = [(rng.normal(size=(WIDTH, WIDTH)), rng.normal(size=WIDTH)) for _ in range(ranks)]
    sent = [[[tensor(x) for x, _ in batch], [tensor(label) for _, label in batch]] for batch in batches]
    per_rank = [(tensor(weight), tensor(bias)) for weight, bias in stages]
    results = (student.ranks if gloo else student.simulated)("harness.stepped", per_rank, common=(sent,))
    truth = [oracle(stages, batch) for batch in batches]
    flat = [oracle(stages, batch, np.full(len(batch), 1 / len(batch)))[1] for batch in batches]
    m, last = len(batches[0]), ranks - 1
    for rank, result in enumerate(results):
        for name in ("weight", "bias"):
            expected, of_means = (sum(found[rank][name] for found in each) for each in ([g for _, g in truth], flat))
            mistakes = {
                f"the sum over the {m} micro-batches, {m} times the mean": m * of_means,
                "the mean of the micro-batches' means": of_means,
                f"divided by {m} once more on each of {last - rank} stages behind": expected / m ** (last - rank),
                f"divided by the {ranks} ranks as well": expected / ranks,
                "the gradient of the last call only": truth[-1][1][rank][name],
            }
            known = {said: value for said, value in mistakes.items() if not np.array_equal(value, expected)}
            where = f"rank {rank} of {ranks}, {m} micro-batches: gradient of the {name}"
            assert_close(result.value[name], tensor(expected), where, mistakes=known)
    return results, [loss for loss, _ in truth]


@check(hints=("One rank, one micro-batch: what does plain training do with the loss?",), guards="plain training")
def check_one_micro_batch(student: Student, rng: np.random.Generator) -> None:
    """With one rank and one micro-batch the gradient is that of plain training."""
    assert_gradients(student, rng, 1, [drawn(rng, [5])])


@check(
    hints=(
        "The same eight tokens, in one micro-batch or in four: by how much does your gradient differ?",
        "backward adds to .grad. What turns a sum of means into one mean?",
        "Divide what you call backward on, before you do.",
    )
)
def check_more_micro_batches_same_gradient(student: Student, rng: np.random.Generator) -> None:
    """The gradient does not depend on how many micro-batches the batch is cut into."""
    for m in (2, 4, 8):
        assert_gradients(student, rng, 1, [drawn(rng, [2] * m)])


@check(
    hints=(
        "Compare the stages: is every gradient off by the same factor, or by more the further it has travelled?",
        "What arrives from the stage behind is a derivative of the whole loss already. What is left to divide?",
    )
)
def check_every_stage_has_the_same_scale(student: Student, rng: np.random.Generator) -> None:
    """On two, three and four ranks each stage has the gradient of one process."""
    for ranks, m in ((2, 4), (3, 2), (4, 4), (2, 1)):
        assert_gradients(student, rng, ranks, [drawn(rng, [2] * m)])


@check(
    hints=(
        "Five tokens here, one there: does each token count the same in your loss, or each micro-batch?",
        "Sum over tokens, and divide by the number of labelled tokens in all micro-batches together.",
    )
)
def check_every_labelled_token_counts_once(student: Student, rng: np.random.Generator) -> None:
    """Micro-batches of unequal size and with ignored labels make the mean over all labelled tokens."""
    assert_gradients(student, rng, 1, [drawn(rng, [5, 3, 1])])
    assert_gradients(student, rng, 2, [drawn(rng, [4, 4, 4], ignored=[0, 3, 1])])


@check(
    hints=(
        "The stages before still wait for a gradient of this micro-batch, even if it is all zeros.",
        "The mean over no tokens is 0/0, a sum over none is 0.",
    )
)
def check_a_micro_batch_without_labels(student: Student, rng: np.random.Generator) -> None:
    """A micro-batch without any label adds nothing, and nobody waits for ever."""
    for ranks in (1, 2):
        assert_gradients(student, rng, ranks, [drawn(rng, [3, 2, 4], ignored=[1, 2, 0])])


@check(hints=("What was in .grad before this call? Scale what you add, not what is there.",))
def check_two_calls_add_up(student: Student, rng: np.random.Generator) -> None:
    """A second call adds its gradient to the first one's and leaves that as it was."""
    for ranks in (1, 3):
        assert_gradients(student, rng, ranks, [drawn(rng, [2, 3]), drawn(rng, [4, 1])])


@check(hints=("Report the loss you call backward on, on the last rank only. A mean over no tokens is 0/0.",))
def check_the_loss_that_is_reported(student: Student, rng: np.random.Generator) -> None:
    """The last rank returns the mean over all labelled tokens, the others None."""
    for ranks, sizes in ((1, [5, 1, 2]), (3, [2, 4, 1])):
        results, losses = assert_gradients(student, rng, ranks, [drawn(rng, sizes, ignored=[1, 0, sizes[2]])])
        assert_close(results[-1].value["losses"][0], losses[0], f"the loss on the last of {ranks} ranks")
        for result in results[:-1]:
            got = result.value["losses"][0]
            assert got is None, f"rank {result.rank} of {ranks} returns {got!r:.40}, expected None: it sees no labels."


@check(hints=("Simulated ranks agree already. What do you rely on that real ones do not do?",), guards="gloo")
def check_real_ranks(student: Student, rng: np.random.Generator) -> None:
    """Two real ranks get the same gradients."""
    assert_gradients(student, rng, 2, [drawn(rng, [3, 1, 2], ignored=[0, 0, 1])], gloo=True)

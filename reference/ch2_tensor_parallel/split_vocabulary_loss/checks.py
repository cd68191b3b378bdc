"""Hidden checks of split_vocabulary_loss, in teaching order: loss, owner, gradient, extremes, padding, traffic."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
IGNORED = -100


def log_sum_exp(logits: Array) -> Array:
    """Return the logarithm of each row's sum of exponentials."""
    largest = np.maximum(logits.max(axis=1, keepdims=True), -1e300)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0])


def run_loss(
    student: Student, *groups: tuple[list[Array], Array], gradient: bool = True, gloo: bool = False
) -> list[RankResult]:
    """Give each rank of each group one of the group's shards, and compare its loss and gradient with one process's."""
    ranks = [(group, place) for group, (shards, _) in enumerate(groups) for place in range(len(shards))]
    members = [tuple(r for r, (own, _) in enumerate(ranks) if own == group) for group in range(len(groups))]
    per_rank = [(tensor(groups[g][0][place]), tensor(groups[g][1]), Group(members[g])) for g, place in ranks]
    results = (student.ranks if gloo else student.simulated)("harness.loss_and_gradient", per_rank)
    for result, (group, place) in zip(results, ranks, strict=True):
        shards, labels = groups[group]
        counts, starts = labels != IGNORED, np.cumsum([0, *(shard.shape[1] for shard in shards)])
        logits, label, tokens = np.concatenate(shards, axis=1), np.where(counts, labels, 0), np.arange(len(labels))
        losses = log_sum_exp(logits) - logits[tokens, label]
        owner = np.searchsorted(starts, label, side="right") - 1
        of_owner = np.array([log_sum_exp(shard) for shard in shards])[owner, tokens] - logits[tokens, label]
        mistakes = {
            "normalised over the owner's columns instead of the vocabulary": of_owner[counts].mean(),
            "the mean over all tokens, also those that do not count": (losses * counts).mean(),
            "the sum over the tokens": losses[counts].sum(),
        }
        where, expected = f"rank {result.rank} of {len(results)}:", tensor(losses[counts].mean())
        assert_close(result.value["loss"], expected, f"{where} loss", mistakes=mistakes)
        if gradient:
            softmax = np.exp(logits - log_sum_exp(logits)[:, None])
            softmax[tokens, label] -= 1
            mine = (softmax * counts[:, None] / counts.sum())[:, starts[place] : starts[place + 1]]
            known = {f"{len(shards)} times the gradient of the loss": mine * len(shards)}
            assert_close(result.value["gradient"], tensor(mine), f"{where} gradient of logits_shard", mistakes=known)
            assert result.value["intact"], f"{where} logits_shard or labels were changed, expected them as they were."
    return results


def draw(rng: np.random.Generator, widths: tuple[int, ...], tokens: int = 7) -> tuple[list[Array], Array]:
    """Draw shards of these widths, and labels that name each column in turn, in any order."""
    labels = np.resize(rng.permutation(sum(widths)), tokens)
    return [rng.normal(size=(tokens, width)).round(2) for width in widths], labels


@check(
    hints=(
        "All logits of 8 tokens are equal. How likely is each, and how likely does a rank think it is?",
        "The denominator of a softmax runs over the vocabulary. How much of it is on this rank?",
        "Add up the ranks' sums of exponentials before you take the logarithm.",
    )
)
def check_the_denominator_is_the_whole_vocabulary(student: Student) -> None:
    """On one rank and on two, equal logits of 8 tokens give a loss of log 8: probabilities add up to 1."""
    run_loss(student, ([np.zeros((3, 8))], np.array([0, 5, 7])), gradient=False)
    run_loss(student, ([np.zeros((3, 4))] * 2, np.array([0, 5, 7])), gradient=False)


@check(
    hints=(
        "Sums of exp(z - m) add up only if all were taken relative to the same m, and over the group that was given.",
        "Index -1 is a column too, the last. What does your code pick where the label is on another rank?",
        "Let the owner of the label bring its logit, relative to the same m, and all others zero.",
    )
)
def check_the_owner_brings_the_label(student: Student, rng: np.random.Generator) -> None:
    """In a group of four ranks and one of three beside it, the loss is right wherever the label lies."""
    run_loss(student, draw(rng, (2, 2, 2, 2), tokens=12), draw(rng, (3, 3, 3), tokens=9), gradient=False)


@check(
    hints=(
        "Every rank computes the same loss and calls backward. Of how many losses is the gradient the derivative?",
        "What reaches this rank's columns through the denominator, and what through the label? Is any of it detached?",
    )
)
def check_each_rank_gets_its_columns_of_the_gradient(student: Student, rng: np.random.Generator) -> None:
    """On one, two and three ranks a logit's gradient is softmax, minus one at the label, over the number of tokens."""
    run_loss(student, draw(rng, (4, 4)), gloo=True)
    run_loss(student, draw(rng, (3, 3, 3)), draw(rng, (5,)))


@check(hints=("exp(10000) is infinite. Relative to which number of the whole vocabulary may one take all exponents?",))
def check_huge_logits_are_no_trouble(student: Student, rng: np.random.Generator) -> None:
    """Logits of plus and minus 10 000, wherever the largest lies, give finite and exact results."""
    shards, labels = draw(rng, (3, 3, 3), tokens=6)
    levels = np.array([[1, 0, -1], [-1, 0, 1], [0, 1, -1], [0, -1, 1], [-1, -1, -1], [1, 1, 1]]) * 1e4
    run_loss(student, ([shard + levels[:, [place]] for place, shard in enumerate(shards)], labels))


@check(
    hints=(
        "The second rank begins where the first one's columns end. Is that its number times its own width?",
        "A rank with nothing but padding has -inf for its largest logit, and -inf minus -inf is no number.",
    )
)
def check_uneven_and_padded_columns(student: Student, rng: np.random.Generator) -> None:
    """Ranks may have different numbers of columns, and padding of -inf changes nothing, even on a whole rank."""
    run_loss(student, draw(rng, (1, 4, 2)))
    shards, labels = draw(rng, (4, 2), tokens=6)
    shards[1] = np.hstack([shards[1], np.full((6, 2), -np.inf)])
    run_loss(student, ([*shards, np.full((6, 4), -np.inf)], labels))


@check(
    hints=(
        "A label of -100 is on no rank. Does its token enter the sum, the number that divides, or the gradient?",
        "Divide by the number of tokens that count, the same on every rank.",
    )
)
def check_some_tokens_do_not_count(student: Student, rng: np.random.Generator) -> None:
    """Tokens labelled -100 enter neither loss nor mean nor gradient."""
    shards, labels = draw(rng, (3, 4))
    labels[[1, 2, 5]] = IGNORED
    run_loss(student, (shards, labels))


@check(
    hints=("Send what is left after reducing over your own columns: one number a token, not one a column.",),
    judged_by="network",
)
def check_three_numbers_a_token_travel(student: Student, rng: np.random.Generator) -> None:
    """A rank contributes at most three numbers a token to collectives, and eight more, backward included."""
    tokens = 40
    for result in run_loss(student, draw(rng, (30, 30), tokens)):
        numbers = sum(int(np.prod(call.shape)) for call in result.calls if call.op != "barrier")
        made = ", ".join(f"{call.op} of {list(call.shape)}" for call in result.calls)
        what = f"rank {result.rank} of 2: {made}, together {numbers} numbers for {tokens} tokens"
        assert numbers <= 3 * tokens + 8, f"{what}, expected at most {3 * tokens + 8}."

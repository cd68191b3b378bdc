"""Hidden checks of parity_gate, in teaching order: a common mistake, legitimate runs, then every corner of a trace."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from grader.judging import Student, assert_equal, check

LEGITIMATE = [
    "two ranks", "uneven shares, weighted by their samples", "four micro-batches on three ranks",
    "a wide layer on two tensor-parallel shards", "a wide layer on four shards, two ranks",
    "sums in float64, last rank first", "divided before the sum, added in pairs",
    "clipped by the norm of all shards", "two stages, each with its own tensors",
]  # fmt: skip
SCALE = [
    "mean_gradients: the sum over the ranks", "divide_loss_once: micro-batches not divided",
    "reduce_scatter_scale: divided twice", "one_global_norm: clipped by a shard's norm",
]  # fmt: skip
HIDDEN = [
    "token_weighted_loss: a mean of means", "uneven_ranks: padding counted", "tied_ends: the logits' gradient lost",
    "accumulate_once: half of the batch dropped", "reduce_scatter_scale: reduced in bfloat16",
    "bias_once: a bias on both shards", "conjugate_operators: a partial input gradient",
    "sequence_parallel_norms: a norm's gradient not reduced", "buckets_in_flight: a faint tensor not reduced",
]  # fmt: skip
ONE_RANK = {
    "shared_start: rank 1 starts elsewhere": (0, "gradients", "embedding", 0),
    "buckets_in_flight: one bucket not waited for": (0, "gradients", "down", 2),
    "sequence_parallel_norms: not reduced on rank 1": (0, "gradients", "norm", 1),
    "sharded_optimizer: a stale shard on rank 1": (0, "parameters", "up_bias", 1),
}
LATE = {
    "shards_with_a_tail: the tail never updated": (0, "parameters", "down", 0),
    "accumulate_once: the last window divided by all": (2, "gradients", "embedding", 0),
}
NAN = {"a NaN on the last rank": (1, "gradients", "up", 1)}
Change = Callable[[dict[str, Any], dict[str, Any]], Any]


def assert_flagged(student: Student, rng: np.random.Generator, names: list[str]) -> None:
    """Fail unless the gate flags each of these mistakes."""
    verdicts = student.call("harness.judged", names, int(rng.integers(2**31))).value
    for name, verdict in zip(names, verdicts, strict=True):
        assert verdict is not None, f"The gate let this mistake pass: {name}."


def add(held: dict[str, Any], name: str) -> None:
    """Make the last element of a tensor wrong."""
    held[name].flat[-1] += 0.5


def changed(rng: np.random.Generator, change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the traces of one process and of three equal ranks, three steps each, after a change."""
    steps = [{"z": rng.normal(size=(2, 3)).astype("f4"), "a": rng.normal(size=4).astype("f4")} for _ in range(6)]
    one = {"losses": [1.0] * 3, "gradients": [[t] for t in steps[:3]], "parameters": [[t] for t in steps[3:]]}
    three = {
        kind: [[deepcopy(held) for held in ranks * 3] for ranks in one[kind]] for kind in ("gradients", "parameters")
    }
    three["losses"] = [1.0] * 3
    change(one, three)
    return one, three


def assert_found(
    student: Student, rng: np.random.Generator, what: str, expected: tuple[int, str, str, int], change: Change
) -> None:
    """Compare the whole verdict on a changed trace."""
    verdict = student.call("parity", *changed(rng, change)).value
    assert verdict is not None, f"The gate let a trace pass with {what}."
    found = tuple(verdict.get(key) for key in ("step", "kind", "name", "rank"))
    assert_equal(found, expected, f"the first divergence (step, kind, name, rank), with {what},")


@check(
    hints=(
        "Run the example: losses agree to four digits, gradients differ by a factor of four. What does Adam do to it?",
        "Losses are a consequence, weeks later. Compare the gradients themselves, with those of the one process.",
    )
)
def check_a_wrong_scale_is_flagged(student: Student, rng: np.random.Generator) -> None:
    """Gradients of a wrong scale are flagged, though the losses agree and so do all ranks."""
    assert_flagged(student, rng, SCALE)


@check(
    hints=(
        "Float32 sums in another order are not equal bit for bit. By how much of a tensor's norm do they move?",
        "One gradient is zero but for rounding. Relative to what is its difference small?",
        "Allow each tensor a share of its own norm, or of a hundredth of the norm of all, whichever is larger.",
    )
)
def check_another_order_of_sums_passes(student: Student, rng: np.random.Generator) -> None:
    """Nine runs that only form their sums in another way pass, with three seeds each."""
    for seed in rng.integers(2**31, size=3):
        for name, verdict in zip(LEGITIMATE, student.call("harness.judged", LEGITIMATE, int(seed)).value, strict=True):
            assert verdict is None, f"The gate stopped a legitimate run, {name}, at {verdict}."


@check(
    hints=(
        "Half of the data gone, a sample counted twice, bfloat16: how far does each move a gradient?",
        "One gradient is ten thousand times smaller than the rest: one tolerance for all tensors is blind to it.",
    )
)
def check_no_tensor_hides(student: Student, rng: np.random.Generator) -> None:
    """Mistakes of half a percent are flagged, lost data and faint tensors too."""
    assert_flagged(student, rng, HIDDEN)


@check(
    hints=(
        "Some ranks may be right. Which ranks does your gate look at?",
        "Compare each rank with the reference: the mean of the ranks forgives one, and equal ranks may all be wrong.",
    )
)
def check_every_rank_is_looked_at(student: Student, rng: np.random.Generator) -> None:
    """What a single rank does wrong is flagged, whichever it is."""
    assert_flagged(student, rng, list(ONE_RANK))
    for rank, name in ((0, "z"), (1, "a"), (2, "z")):
        what = f"one element of rank {rank}'s gradient wrong"
        place = (1, "gradients", name, rank)
        assert_found(student, rng, what, place, lambda _, three, r=rank, n=name: add(three["gradients"][1][r], n))


@check(
    hints=(
        "Gradients may be right and the optimizer's step wrong, on some elements only. What have you not compared?",
        "The last step's parameters have no later gradient that would tell: compare the parameters of every step.",
    )
)
def check_parameters_and_the_last_step_count(student: Student, rng: np.random.Generator) -> None:
    """What goes wrong after the gradient, or in the last step only, is flagged."""
    assert_flagged(student, rng, list(LATE))
    for kind, step in (("parameters", 2), ("gradients", 2), ("parameters", 0)):
        what = f"the {kind} of step {step} wrong on all ranks"
        place = (step, kind, "a", 0)
        assert_found(student, rng, what, place, lambda _, three, k=kind, s=step: [add(h, "a") for h in three[k][s]])


@check(
    hints=(
        "Is NaN greater than your tolerance? Ask for what has to hold, not for what must not.",
        "Compare shapes before you subtract, and look for every tensor and step that the reference has.",
    )
)
def check_what_is_no_number_or_missing_is_flagged(student: Student, rng: np.random.Generator) -> None:
    """NaN, another shape, a tensor that no rank holds and a missing step diverge; a reference of zeros is refused."""
    assert_flagged(student, rng, list(NAN))

    def shorten(one: dict[str, Any], three: dict[str, Any]) -> None:
        one["gradients"][0][0]["a"][:] = 2
        for held in three["gradients"][0]:
            held["a"] = np.full(1, 2, "f4")

    cases: list[tuple[str, tuple[int, str, str, int], Change]] = [
        ("a NaN on rank 2", (1, "gradients", "z", 2), lambda _, three: three["gradients"][1][2]["z"].fill(np.nan)),
        ("one element in place of four equal ones", (0, "gradients", "a", 0), shorten),
        ("a tensor nowhere", (1, "parameters", "z", 0), lambda _, three: [h.pop("z") for h in three["parameters"][1]]),
        (
            "the last step missing",
            (2, "gradients", "z", 0),
            lambda _, t: [t[k].pop() for k in ("gradients", "parameters")],
        ),
    ]
    for case in cases:
        assert_found(student, rng, *case)
    dead = changed(rng, lambda *both: [v.fill(0) for t in both for held in t["gradients"][1] for v in held.values()])
    ended = student.call("harness.refusal", *dead).value
    assert ended == "refused", f"On a reference without any gradient parity {ended}, expected a ValueError."


@check(
    hints=(
        "Whoever reads the verdict starts to search there. What comes first in a step, and which tensor, which rank?",
        "Steps outermost, then gradients before parameters, then the reference's order of names, then ranks.",
    )
)
def check_the_first_divergence_is_named(student: Student, rng: np.random.Generator) -> None:
    """The verdict names the first step, kind, tensor and rank that differ, for all twenty mistakes."""
    first = dict.fromkeys(SCALE + HIDDEN, (0, "gradients", "embedding", 0)) | ONE_RANK | LATE | NAN
    first |= {HIDDEN[-2]: (0, "gradients", "norm", 0), HIDDEN[-1]: (0, "gradients", "faint", 0)}
    verdicts = student.call("harness.judged", list(first), int(rng.integers(2**31))).value
    for (name, expected), verdict in zip(first.items(), verdicts, strict=True):
        found = verdict and tuple(verdict.get(key) for key in ("step", "kind", "name", "rank"))
        assert_equal(found, expected, f"the first divergence (step, kind, name, rank) of {name}")
    g, p = "gradients", "parameters"
    places = ((1, g, 0, "a"), (1, g, 2, "z"), (1, p, 0, "z"), (2, g, 0, "z"))
    change: Change = lambda _, three: [add(three[kind][step][rank], name) for step, kind, rank, name in places]
    assert_found(student, rng, "four places wrong", (1, g, "z", 2), change)

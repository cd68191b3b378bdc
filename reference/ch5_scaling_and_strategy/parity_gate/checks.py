"""Hidden checks of parity_gate, in teaching order: a common mistake, legitimate runs, then every corner of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Student, assert_equal, check

G, P = "gradients", "parameters"
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
    "shared_start: rank 1 starts elsewhere": (0, G, "embedding", 0),
    "buckets_in_flight: one bucket not waited for": (0, G, "down", 2),
    "sequence_parallel_norms: not reduced on rank 1": (0, G, "norm", 1),
    "sharded_optimizer: a stale shard on rank 1": (0, P, "up_bias", 1),
}
LATE = {
    "shards_with_a_tail: the tail never updated": (0, P, "down", 0),
    "accumulate_once: the last window divided by all": (2, G, "embedding", 0),
}
NAN = {"a NaN on the last rank": (1, G, "up", 1)}


def assert_flagged(student: Student, rng: np.random.Generator, names: list[str], at_once: bool = False) -> None:
    """Fail unless the gate flags each of these mistakes, some already in the gradients of the first step."""
    verdicts = student.call("harness.judged", names, int(rng.integers(2**31))).value
    for name, verdict in zip(names, verdicts, strict=True):
        assert verdict is not None, f"The gate let this mistake pass: {name}."
        late = f"The gate saw it only in the {verdict['kind']} of step {verdict['step']}: {name}."
        assert not at_once or (verdict["step"], verdict["kind"]) == (0, G), late


def assert_found(student: Student, rng: np.random.Generator, what: str, place: tuple[Any, ...], *edits: Any) -> None:
    """Compare the whole verdict on an edited trace of three ranks: step, kind, name, rank."""
    verdict = student.call("harness.edited", list(edits), int(rng.integers(2**31))).value
    assert isinstance(verdict, dict), f"The gate said {verdict} of a trace with {what}, expected a divergence."
    found = tuple(verdict.get(key) for key in ("step", "kind", "name", "rank"))
    assert_equal(found, place, f"the first divergence (step, kind, name, rank), with {what},")


@check(
    hints=(
        "Run the example: losses agree to four digits, gradients differ by a factor of four. What does Adam do to it?",
        "Compare the gradients themselves, with those of the one process.",
    )
)
def check_a_wrong_scale_is_flagged(student: Student, rng: np.random.Generator) -> None:
    """Gradients of a wrong scale are flagged, though the losses agree and so do all ranks."""
    assert_flagged(student, rng, SCALE, at_once=True)


@check(
    hints=(
        "Float32 sums in another order are not equal bit for bit. By how much of a tensor's norm do they move?",
        "The gradient of `shift` is zero but for rounding: allow a share of its norm, or of a hundredth of all.",
    )
)
def check_another_order_of_sums_passes(student: Student, rng: np.random.Generator) -> None:
    """Nine runs that only form their sums in another way pass, with three seeds, and whatever the loss scale."""
    for scale in (1.0, 2.0**20, 2.0**-20):
        verdicts = student.call("harness.judged", LEGITIMATE, int(rng.integers(2**31)), scale).value
        for name, verdict in zip(LEGITIMATE, verdicts, strict=True):
            why = " The gradient of `shift` is zero but for rounding." * ("shift" in str(verdict))
            assert verdict is None, f"The gate stopped a legitimate run, {name}, at {verdict}.{why}"


@check(
    hints=(
        "Half of the data gone, a sample counted twice, bfloat16: how far does each move a gradient?",
        "One gradient is ten thousand times smaller than the rest: one tolerance for all tensors is blind to it.",
    )
)
def check_no_tensor_hides(student: Student, rng: np.random.Generator) -> None:
    """Mistakes of half a percent are flagged, lost data and faint tensors too."""
    assert_flagged(student, rng, HIDDEN, at_once=True)


@check(
    hints=(
        "Some ranks may be right. Which ranks does your gate look at?",
        "Compare each rank with the reference: the mean of the ranks forgives one, and equal ranks may all be wrong.",
    )
)
def check_every_rank_is_looked_at(student: Student, rng: np.random.Generator) -> None:
    """What a single rank does wrong is flagged, whichever it is."""
    assert_flagged(student, rng, list(ONE_RANK))
    for rank, name in ((0, "a"), (1, "z"), (2, "a")):
        assert_found(student, rng, f"rank {rank}'s {name} wrong", (0, G, name, rank), [G, 0, rank, name, "add"])


@check(
    hints=(
        "Gradients may be right and the optimizer's step wrong, on some elements only. What have you not compared?",
        "The last step's parameters have no later gradient that would tell: compare the parameters of every step.",
    )
)
def check_parameters_and_the_last_step_count(student: Student, rng: np.random.Generator) -> None:
    """What goes wrong after the gradient, or in the last step only, is flagged."""
    assert_flagged(student, rng, list(LATE))
    for kind, step in ((P, 2), (G, 2), (P, 0)):
        assert_found(student, rng, f"step {step}'s {kind} wrong", (step, kind, "z", 1), [kind, step, 1, "z", "add"])


@check(
    hints=(
        "Is NaN greater than your tolerance? Ask for what has to hold, not for what must not.",
        "Compare shapes before you subtract, and look for every tensor and step that the reference has.",
    )
)
def check_what_is_no_number_or_missing_is_flagged(student: Student, rng: np.random.Generator) -> None:
    """NaN, another shape, a tensor that no rank holds and a missing step diverge; a reference of zeros is refused."""
    assert_flagged(student, rng, list(NAN))
    assert_found(student, rng, "a NaN on rank 2", (1, G, "a", 2), [G, 1, 2, "a", "NaN"])
    one = ([G, 0, -1, "z", "fill"], [G, 0, 2, "z", "one"])
    assert_found(student, rng, "one element in place of four equal ones", (0, G, "z", 2), *one)
    assert_found(student, rng, "a tensor that no rank holds", (1, P, "a", 0), [P, 1, -1, "a", "drop"])
    assert_found(student, rng, "the last step missing", (2, G, "a", 0), [G, 2, 0, "a", "cut"], [P, 2, 0, "a", "cut"])
    dead = [[G, 1, -1, name, "zero"] for name in ("a", "z")]
    ended = student.call("harness.edited", dead, 0).value
    assert ended == "refused", f"On a step without any gradient parity answered {ended}, expected a ValueError."


@check(hints=("Steps outermost, then gradients before parameters, then the reference's order of names, then ranks.",))
def check_the_first_divergence_is_named(student: Student, rng: np.random.Generator) -> None:
    """The verdict names the first step, kind, tensor and rank that differ, for all twenty mistakes."""
    first = dict.fromkeys(SCALE + HIDDEN, (0, G, "embedding", 0)) | ONE_RANK | LATE | NAN
    first |= {HIDDEN[-2]: (0, G, "norm", 0), HIDDEN[-1]: (0, G, "faint", 0)}
    verdicts = student.call("harness.judged", list(first), int(rng.integers(2**31))).value
    for (name, expected), verdict in zip(first.items(), verdicts, strict=True):
        found = verdict and tuple(verdict.get(key) for key in ("step", "kind", "name", "rank"))
        assert_equal(found, expected, f"the first divergence (step, kind, name, rank) of {name}")
    edits = [[G, 1, 0, "z", "add"], [G, 1, 2, "a", "add"], [P, 1, 0, "a", "add"], [G, 2, 0, "a", "add"]]
    assert_found(student, rng, "four places wrong", (1, G, "a", 2), *edits)

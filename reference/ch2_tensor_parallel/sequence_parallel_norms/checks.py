"""Hidden checks of sequence_parallel_norms, in teaching order: forward, norms, copies, pieces, grid, steps, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, check, tensor

Array = np.ndarray[Any, Any]
TOKENS, FEATURES, HIDDEN = 12, 4, 12
SHAPES = {"positions": (TOKENS, FEATURES), "scale": (FEATURES,), "shift": (FEATURES,)}
SHAPES |= {"up": (FEATURES, HIDDEN), "down": (HIDDEN, FEATURES), "bias": (FEATURES,)}


def whole_block(
    x: Array, y: Array, given: dict[str, Array], tokens: slice = slice(None)
) -> tuple[Array, dict[str, Array]]:
    """Return output and gradients of one process; the copies' gradients only as far as `tokens` make them."""
    z = x + given["positions"]
    spread = np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
    unit = (z - z.mean(axis=1, keepdims=True)) / spread
    normed = unit * given["scale"] + given["shift"]
    hidden = np.maximum(normed @ given["up"], 0)
    output = z + hidden @ given["down"] + given["bias"]
    back = 2 * (output - y) / y.size
    inner = back @ given["down"].T * (hidden > 0)
    outer = inner @ given["up"].T
    slope = outer * given["scale"]
    within = slope.mean(axis=1, keepdims=True) + unit * (slope * unit).mean(axis=1, keepdims=True)
    at_tokens = {"scale": outer * unit, "shift": outer, "bias": back}
    gradients = {name: part[tokens].sum(axis=0) for name, part in at_tokens.items()}
    gradients |= {"positions": np.zeros_like(z), "up": normed.T @ inner, "down": hidden.T @ back}
    gradients["positions"][tokens] = (back + (slope - within) / spread)[tokens]
    return output, gradients


def piece(name: str, whole: Array, size: int, place: int) -> Array:
    """Return a rank's piece of a split weight, the whole of any other."""
    return np.array_split(whole, size, axis=int(name == "up"))[place] if name in {"up", "down"} else whole


def run_block(
    student: Student, rng: np.random.Generator, size: int, *names: str, replicas: int = 1, steps: int = 1
) -> list[RankResult]:
    """Run `replicas` blocks of `size` ranks each; compare outputs, and gradients and end values called `names`."""
    given = {name: rng.normal(size=shape) / 2 for name, shape in SHAPES.items()}
    xs, ys = rng.normal(size=(2, replicas, TOKENS, FEATURES))
    tensors = {name: tensor(value) for name, value in given.items()}
    data = [(tensor(x), tensor(y), tensors, steps) for x, y in zip(xs, ys, strict=True)]
    models = [Group(tuple(range(size * replica, size * (replica + 1)))) for replica in range(replicas)]
    peers = [Group(tuple(range(place, size * replicas, size))) for place in range(size)]
    per_rank = [(*data[rank // size], models[rank // size], peers[rank % size]) for rank in range(size * replicas)]
    results = (student.ranks if steps > 1 else student.simulated)("harness.stepped", per_rank)
    means, after = [], dict(given)
    for _ in range(steps):
        every = [whole_block(x, y, after)[1] for x, y in zip(xs, ys, strict=True)]
        means.append({name: np.mean([gradients[name] for gradients in every], axis=0) for name in SHAPES})
        after = {name: value - 0.2 * means[-1][name] for name, value in after.items()}
    for result in results:
        replica, place = divmod(result.rank, size)
        own, where = (
            slice(place * TOKENS // size, (place + 1) * TOKENS // size),
            f"rank {result.rank} of {len(results)}:",
        )
        mine = whole_block(xs[replica], ys[replica], given, own)
        assert_close(
            result.value["output"], tensor(mine[0][own]), f"{where} output of tokens {own.start} to {own.stop - 1}"
        )
        for name in names:
            gradient, partial = (piece(name, each[name], size, place) for each in (means[0], mine[1]))
            mistakes = {"what this rank's own tokens make of it": partial, "1/t of the sum: a mean": gradient / size}
            what = f"{where} gradient of {name}"
            assert_close(result.value["gradients"][name], tensor(gradient), what, mistakes=mistakes)
            end = tensor(piece(name, after[name], size, place))
            assert_close(result.value["after"][name], end, f"{where} {name} after SGD, {steps} steps")
    return results


@check(hints=("Block was right in the starter: a rank's tokens begin where those of the ranks before it end.",))
def check_each_rank_has_its_tokens(student: Student, rng: np.random.Generator) -> None:
    """On one and three ranks forward returns the output of the rank's own tokens, with their own positions."""
    for size in (1, 3):
        run_block(student, rng, size)


@check(
    hints=(
        "Which tokens has this rank's copy of scale met, and which has the other rank's?",
        "A gradient is a sum over tokens. Two copies hold a part of it each: who puts the parts together, and how?",
        "The loss is the sum of the ranks' losses, so the parts are added, in the group over which the block is split.",
    )
)
def check_norm_gradients_are_sums_over_all_tokens(student: Student, rng: np.random.Generator) -> None:
    """On one and two ranks every copy of scale and shift gets the gradient of all tokens."""
    for size in (1, 2):
        run_block(student, rng, size, "scale", "shift")


@check(
    hints=(
        "Which other parameters are copies that met only some tokens? The zeros in a gradient may be one rank's truth.",
    )
)
def check_every_copy_is_summed(student: Student, rng: np.random.Generator) -> None:
    """On two and three ranks every copy of bias and positions gets the gradient of all tokens too."""
    for size in (2, 3):
        run_block(student, rng, size, "bias", "positions")


@check(hints=("up and down are used after the gather: which tokens have they met, and who else has these columns?",))
def check_pieces_keep_their_gradients(student: Student, rng: np.random.Generator) -> None:
    """On four ranks the pieces up and down get their own columns and rows of one process's gradient."""
    run_block(student, rng, 4, "up", "down")


@check(
    hints=(
        "Four ranks, two sequences: over which two does a norm's gradient sum, and over which two is it averaged?",
        "block.group shares a sequence: sum. data_group has other sequences: mean. All four together are neither.",
    )
)
def check_a_grid_sums_and_averages(student: Student, rng: np.random.Generator) -> None:
    """In a grid of two by two, gradients are sums over the ranks of a block and means over the blocks."""
    run_block(student, rng, 2, *SHAPES, replicas=2)


@check(hints=("Step two begins with new gradient tensors. What does your code remember of the first step?",))
def check_five_steps_keep_the_copies_equal(student: Student, rng: np.random.Generator) -> None:
    """After five SGD steps on two real ranks every copy and piece is where one process ends."""
    run_block(student, rng, 2, *SHAPES, steps=5)


@check(
    hints=("Sum gradients of the copies, once; for activations the block's gathers and scatters are enough.",),
    judged_by="network",
)
def check_traffic_is_that_of_tensor_parallelism(student: Student, rng: np.random.Generator) -> None:
    """A step moves two all-reduces' bytes of activations, and one all-reduce of the replicated gradients."""
    for size in (2, 3):
        bytes_of = [
            2 * TOKENS * FEATURES,
            *(int(np.prod(SHAPES[name])) for name in SHAPES if name not in {"up", "down"}),
        ]
        most = sum(2 * (size - 1) * -(-8 * numbers // size) for numbers in bytes_of)
        for result in run_block(student, rng, size, "scale"):
            moved = sum(call.ring_bytes for call in result.calls)
            what = f"rank {result.rank} of {size} moved {moved} bytes in a ring, expected at most {most}"
            assert moved <= most, f"{what}."

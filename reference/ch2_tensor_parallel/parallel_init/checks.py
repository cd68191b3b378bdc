"""Hidden checks of parallel_init, in teaching order: variance, pieces, one weight, memory, then dropout's streams."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
COUNT = 64  # numbers that dropout sees: two streams agree in all of them by chance once in 2**64


def draw_pieces(student: Student, shape: tuple[int, int], dim: int, seed: int, world_size: int) -> list[Array]:
    """Return all ranks' pieces, after a look at their kind and shape."""
    answer = student.call("harness.pieces", list(shape), dim, seed, world_size).value
    expected = [size // world_size if axis == dim else size for axis, size in enumerate(shape)]
    for rank, found in enumerate(answer["pieces"]):
        assert_close(found, tensor(found.array), f"piece of rank {rank} of {world_size}", dtype="float32")
        what = f"shape of the piece of rank {rank}, {list(shape)} cut along {dim} over {world_size} ranks,"
        assert_equal(list(found.shape), expected, what)
    return [found.array for found in answer["pieces"]]


def play(student: Student, rng: np.random.Generator, *scripts: list[Any]) -> list[list[Array]]:
    """Play a script of dropout calls on each rank, p = 1/2, and return which numbers each call kept."""
    seed = int(rng.integers(1000, 9000))
    results = student.simulated("harness.played", [(seed, rank, 0.5, script) for rank, script in enumerate(scripts)])
    return [[(output.array > 0).astype(int) for output in result.value["outputs"]] for result in results]


@check(
    hints=(
        "Xavier's variance is 2 / (outputs + inputs), of the layer. Whose outputs and inputs does the library count?",
    )
)
def check_the_variance_is_that_of_the_whole(student: Student, rng: np.random.Generator) -> None:
    """On 1, 2 and 4 ranks, cut along either dimension, pieces have the whole weight's variance."""
    outputs, inputs = 96, 480
    for world_size, dim in ((1, 0), (2, 1), (4, 1), (4, 0)):
        pieces = draw_pieces(student, (outputs, inputs), dim, int(rng.integers(9999)), world_size)
        found, expected = float(np.concatenate(pieces, axis=dim).std()), (2 / (outputs + inputs)) ** 0.5
        cut = [outputs, inputs]
        cut[dim] //= world_size
        local = (2 / sum(cut)) ** 0.5
        note = "\nthat is Xavier's for the piece alone" if world_size > 1 and abs(found / local - 1) < 0.03 else ""
        what = f"weight [{outputs}, {inputs}] cut along {dim} over {world_size} ranks: standard deviation"
        assert abs(found / expected - 1) < 0.03, f"{what} is {found:.4f}, expected {expected:.4f} within 3 %.{note}"


@check(hints=("With one seed and pieces of one shape, what tells rank 1's numbers from rank 0's?",))
def check_pieces_are_no_copies(student: Student, rng: np.random.Generator) -> None:
    """No two ranks hold the same numbers, and no two seeds make the same weight."""
    first, second = (draw_pieces(student, (8, 8), dim, 11 + dim, 4) for dim in (0, 1))
    for pieces in (first, second, [first[0].reshape(-1), second[0].reshape(-1)]):
        for (i, one), (j, other) in combinations(enumerate(pieces), 2):
            assert not np.array_equal(one, other), f"pieces {i} and {j} hold the same numbers, expected different ones."


@check(
    hints=(
        "Where in the weight of one rank do rank 1's numbers stand? Cut it out of what seed and shape alone decide.",
    )
)
def check_it_is_one_weight_for_any_number_of_ranks(student: Student, rng: np.random.Generator) -> None:
    """Put together, the pieces of 2, 3 and 4 ranks are the weight of one rank, whatever other code draws."""
    for dim in (0, 1):
        seed = int(rng.integers(9999))
        [whole] = draw_pieces(student, (12, 24), dim, seed, 1)
        for world_size in (2, 3, 4):
            together = np.concatenate(draw_pieces(student, (12, 24), dim, seed, world_size), axis=dim)
            what = f"weight put together from {world_size} pieces along {dim}"
            assert_close(tensor(together), tensor(whole), what, rtol=1e-6)


@check(
    hints=(
        "A slice is a window onto the whole. How long does the whole live?",
        "torch.manual_seed turns back everybody's dice. Make a torch.Generator of your own.",
    ),
    judged_by="observation",
)
def check_a_piece_is_all_that_stays(student: Student) -> None:
    """A rank keeps the memory of its piece only, and leaves torch's global random state alone."""
    answer = student.call("harness.pieces", [8, 12], 0, 3, 4).value
    assert_equal(answer["bytes"], [8 * 12 * 4 // 4] * 4, "bytes of memory behind the pieces of 4 ranks")
    assert answer["untouched"], "init_shard changed torch's global random state, expected it to stay as it was."


@check(hints=("What is not dropped must make up for what is: on average, the sum of x is to stay.",))
def check_dropout_drops_and_scales(student: Student, rng: np.random.Generator) -> None:
    """A share p of the numbers becomes zero, the others are divided by 1 - p, for copies and pieces alike."""
    for action in ("copy", "split"):
        for p in (0.2, 0.75):
            output = student.call("harness.played", 5, 0, p, [[action, 4000]]).value["outputs"][0]
            kept = np.where(output.array != 0, np.float32(1 / (1 - p)), np.float32(0))
            assert_close(output, tensor(kept), f"dropout of ones with p = {p}, what is not zero,", rtol=1e-6)
            share = float((output.array == 0).mean())
            assert abs(share - p) < 0.05, f"dropout with p = {p} dropped a share of {share:.3f}, expected about {p}."


@check(
    hints=(
        "Two ranks hold the same activation. What do they hold after they dropped different numbers of it?",
        "For copies the dice depend on the seed only; nobody but copies may throw them.",
        "The other code's numbers, and pieces of another size, must come from other generators.",
    )
)
def check_copies_drop_alike(student: Student, rng: np.random.Generator) -> None:
    """Three ranks drop the same numbers of their copies, whatever else each of them draws in between."""
    copy: list[Any] = ["copy", COUNT]
    drifting = [copy, ["other", 7], copy, copy], [["split", 9], copy, copy, ["split", 3], copy]
    kept = play(student, rng, [copy, copy, copy], *drifting)
    copies = [kept[0], kept[1], [kept[2][index] for index in (1, 2, 4)]]
    for rank, call in ((rank, call) for rank in (1, 2) for call in range(3)):
        what = f"numbers that rank {rank} keeps of its copy at call {call + 1}"
        assert_equal(copies[rank][call], copies[0][call], what)


@check(
    hints=(
        "Pieces are different parts of one tensor. Should the same places be dropped in each of them?",
        "On rank 0, too, dice for pieces and dice for copies are different ones: does seed + 0 differ from seed?",
    )
)
def check_pieces_drop_independently(student: Student, rng: np.random.Generator) -> None:
    """On three ranks no two pieces lose the same numbers, nor does a piece lose those of a copy; every call is new."""
    kept = play(student, rng, *[[["split", COUNT], ["copy", COUNT], ["split", COUNT], ["copy", COUNT]]] * 3)
    streams = {f"rank {r}, call {call + 1} for a piece": kept[r][2 * call] for r in range(3) for call in range(2)}
    streams |= {f"rank 0, call {call + 1} for a copy": kept[0][2 * call + 1] for call in range(2)}
    for (name, one), (other_name, other) in combinations(streams.items(), 2):
        assert not np.array_equal(one, other), f"{name} and {other_name} dropped the same {COUNT} numbers' places."


@check(
    hints=(
        "After a restart, the next piece and the next copy must meet the dice that were next. Which states are saved?",
    )
)
def check_a_restart_goes_on(student: Student, rng: np.random.Generator) -> None:
    """A new Dice with a saved state drops what the old one would have, and global random state is left alone."""
    calls: list[Any] = [["split", COUNT], ["copy", COUNT], ["split", 5]]
    script = [*calls, ["save"], *calls, ["restart"], *calls]
    results = student.simulated("harness.played", [(77, rank, 0.5, script) for rank in range(2)])
    for result in results:
        outputs = [output.array.tolist() for output in result.value["outputs"]]
        assert_equal(outputs[6:], outputs[3:6], f"rank {result.rank}: what dropout returns after a restart")
        assert result.value["untouched"], f"rank {result.rank}: Dice changed torch's global random state."

"""Hidden checks of balanced_stages, in teaching order: the pace, the form of a split, the best one, then memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from grader.judging import Student, assert_close, check, describe

STORY_S = [0.003e-3, *[3.150e-3 / 8] * 64, 0.751e-3]
LARGE = 1 << 40  # bytes: no limit


def sums(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum of each stage's values."""
    ends = np.cumsum(counts)
    return [float(np.sum(values[end - count : end])) for end, count in zip(ends, counts, strict=True)]


def splits(n_pieces: int, n_stages: int) -> Iterator[list[int]]:
    """Yield every way to cut the pieces into contiguous stages that are not empty."""
    for cuts in combinations(range(1, n_pieces), n_stages - 1):
        yield np.diff([0, *cuts, n_pieces]).tolist()


def answer(student: Student, seconds: Sequence[float], sizes: Sequence[int], n_stages: int, cap: int) -> list[int]:
    """Return the student's split once it is known to be one."""
    counts: Any = student.call("split", seconds, sizes, n_stages, cap).value
    where = f"split of {len(seconds)} pieces into {n_stages} stages"
    assert isinstance(counts, (list, tuple)), f"{where} is {describe(counts)}, expected a list of whole numbers."
    counts = [int(count) for count in counts]
    assert len(counts) == n_stages, f"{where} has {len(counts)} numbers, expected {n_stages}: {counts}."
    fewest = f"stage {int(np.argmin(counts))} gets {min(counts)} pieces"
    assert min(counts) >= 1, f"{where}: {fewest}, expected 1 or more: {counts}."
    assert sum(counts) == len(seconds), f"{where} hands out {sum(counts)} pieces, expected {len(seconds)}: {counts}."
    return counts


def assert_best(student: Student, seconds: Sequence[float], sizes: Sequence[int], n_stages: int, cap: int) -> None:
    """Compare the slowest stage of the student's split with that of the best of all splits that fit."""
    counts = answer(student, seconds, sizes, n_stages, cap)
    for stage, held in enumerate(sums(sizes, counts)):
        assert held <= cap, f"stage {stage} of the split {counts} holds {held:.0f} bytes, more than the cap of {cap}."
    fitting = [split for split in splits(len(seconds), n_stages) if max(sums(sizes, split)) <= cap]
    best = min(fitting, key=lambda split: max(sums(seconds, split)))
    assert_pace(seconds, counts, best)


def assert_pace(seconds: Sequence[float], counts: list[int], best: list[int]) -> None:
    """Fail if a stage of `counts` is slower than the slowest one of `best`."""
    taken, limit = sums(seconds, counts), max(sums(seconds, best))
    slowest = int(np.argmax(taken))
    shown = ", ".join(f"{second * 1e3:.3f}" for second in taken)
    assert taken[slowest] <= limit * (1 + 1e-9), (
        f"stage {slowest} takes {taken[slowest] * 1e3:.3f} ms, and in the best split no stage takes more than "
        f"{limit * 1e3:.3f} ms.\nyour split {counts} takes [{shown}] ms"
    )


@check(
    hints=(
        "A stage cannot take the next micro-batch before it has handed on the last. For which do the others wait?",
        "In a full pipeline one micro-batch leaves each time the slowest stage has finished one.",
    )
)
def check_the_slowest_stage_sets_the_pace(student: Student, rng: np.random.Generator) -> None:
    """Throughput is one micro-batch each time the slowest stage finishes one."""
    drawn = rng.uniform(1e-3, 9e-3, size=9).tolist()
    cases = [([0.001, 0.002, 0.005], [2, 1]), ([0.005, 0.002, 0.001], [1, 2]), (STORY_S, [9, *[8] * 6, 9])]
    for seconds, counts in [*cases, (drawn, [2, 3, 4]), (drawn, [9])]:
        taken = sums(seconds, counts)
        mistakes = {
            "what stages of equal length would let through": len(counts) / sum(seconds),
            "one micro-batch at a time through all stages: no pipeline": 1 / sum(seconds),
            "the pace of the fastest stage": 1 / min(taken),
        }
        what = f"throughput of stages with {', '.join(f'{second * 1e3:.3f}' for second in taken)} ms"
        found = student.call("throughput", seconds, counts).value
        assert_close(found, 1 / max(taken), what, rtol=1e-9, mistakes=mistakes, unit="micro-batches/s")


@check(
    hints=(
        "Add your counts up. Are they all the pieces, embedding and head included?",
        "A rank without a piece has nothing to do. What does your split do with as many stages as pieces?",
    )
)
def check_every_piece_has_one_stage(student: Student, rng: np.random.Generator) -> None:
    """Each stage gets a piece or more, and each piece goes to one stage."""
    for n_pieces, n_stages in ((4, 2), (5, 1), (4, 4), (11, 3), (7, 5), (3, 2)):
        answer(student, rng.uniform(1e-3, 2e-3, size=n_pieces).tolist(), [1] * n_pieces, n_stages, LARGE)
    answer(student, [1e-3, 1e-3, 9e-3, 1e-3, 1e-3], [1] * 5, 4, LARGE)


@check(
    hints=(
        "Eight stages with eight layers each look equal. Print what the last one does besides.",
        "A layer takes 0.394 ms here and the head 0.751 ms. Compare stages by their seconds, not by their layers.",
    )
)
def check_the_head_is_work_too(student: Student) -> None:
    """In the model of the story no stage takes more than 3.544 ms: the last one gets fewer layers."""
    sizes = [1_556, *[975] * 64, 1_556]
    counts = answer(student, STORY_S, sizes, 8, LARGE)
    assert_pace(STORY_S, counts, [9, 8, 8, 8, 8, 8, 9, 8])


@check(
    hints=(
        "Filling stages from the front leaves the rest to the last. Where would another first cut have helped?",
        "Suppose you knew the best way to cut the rest. How would you choose where the first stage ends?",
        "For each piece and each number of stages left, keep the best cut from there on: few questions, asked once.",
    )
)
def check_no_other_split_is_faster(student: Student, rng: np.random.Generator) -> None:
    """Among all contiguous splits, none has a faster slowest stage."""
    assert_best(student, [7e-3, 7e-3, 4e-3, 9e-3, 1e-3, 5e-3], [1] * 6, 3, LARGE)
    assert_best(student, [0.1e-3, *[1e-3] * 9, 4e-3], [4, *[1] * 9, 4], 4, LARGE)
    for n_pieces, n_stages in ((6, 3), (9, 2), (9, 4), (10, 5), (8, 7), (10, 3), (9, 5), (7, 1)):
        seconds, sizes = rng.lognormal(-6, 1, size=n_pieces), rng.integers(1, 100, size=n_pieces)
        assert_best(student, seconds.tolist(), sizes.tolist(), n_stages, LARGE)


@check(
    hints=(
        "The fastest split is no use if a stage does not fit. Is the next best one still in your search?",
        "Leave out, while you search, every stage that holds more than the cap; exactly the cap still fits.",
    )
)
def check_no_stage_holds_more_than_its_rank(student: Student, rng: np.random.Generator) -> None:
    """Among the splits whose stages all fit into memory, the fastest is taken."""
    assert_best(student, [1e-3, 1e-3, 1e-3, 9e-3], [5, 5, 5, 1], 2, 15)
    assert_best(student, [1e-3, 1e-3, 1e-3, 9e-3], [5, 5, 5, 1], 2, 11)
    for n_pieces, n_stages in ((6, 3), (8, 3), (9, 4), (10, 5), (7, 2), (9, 3), (8, 4)):
        seconds, sizes = rng.lognormal(-6, 1, size=n_pieces), rng.integers(1, 100, size=n_pieces)
        tightest = min(max(sums(sizes, split)) for split in splits(n_pieces, n_stages))
        for cap in (int(tightest), int(tightest) + 20):
            assert_best(student, seconds.tolist(), sizes.tolist(), n_stages, cap)


@check(hints=("What does your search return when it has found nothing? Say so with a ValueError.",))
def check_what_fits_nowhere_is_refused(student: Student) -> None:
    """If no split fits, a ValueError says so."""
    for sizes, n_stages, cap in (([3, 9, 3], 2, 8), ([4, 4, 4, 4], 2, 7), ([1, 1], 3, 100), ([5], 1, 4)):
        ended = student.call("harness.refusal", [1e-3] * len(sizes), sizes, n_stages, cap).value
        what = f"pieces of {sizes} bytes into {n_stages} stages of at most {cap} bytes"
        assert ended == "refused", f"split {ended} for {what}, expected a ValueError."

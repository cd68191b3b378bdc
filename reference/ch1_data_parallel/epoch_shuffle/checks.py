"""Hidden checks of epoch_shuffle, in teaching order: one rank, several, epochs, both ends of the list, means."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np

from grader.judging import Group, Student, assert_close, assert_equal, check

Lists = list[list[int]]


def deal(student: Student, n: int, world_size: int, epoch: int = 0, seed: int = 5, **more: int) -> Lists:
    """Return the lists of all ranks, after a look at the sample numbers."""
    pad = bool(more.pop("pad", False))
    lists: Lists = student.call("harness.dealt", n, world_size, epoch, seed, pad, **more).value
    for rank, own in enumerate(lists):
        strange = [index for index in own if not 0 <= index < n]
        assert not strange, f"rank {rank} of {world_size} gets sample {strange[0]}, but there are only 0 to {n - 1}."
    return lists


def assert_each_once(lists: Lists, n: int, what: str) -> None:
    """Fail unless every sample is in exactly one list, once."""
    counts = np.bincount(np.concatenate([np.array(own, dtype=int) for own in lists]), minlength=n)
    for sample, count in enumerate(counts.tolist()):
        holders = [rank for rank, own in enumerate(lists) if sample in own]
        assert count == 1, f"{what}: sample {sample} is dealt {count} times (ranks {holders}), expected once."


@check(
    hints=("Alone, a rank sees everything once: its list is the whole permutation. Is one missing, or twice there?",),
    guards="the simplest case: one rank and one list",
)
def check_one_rank_sees_each_sample_once(student: Student) -> None:
    """A single rank's list holds each sample once, padded or not, in no sorted order."""
    for pad in (False, True):
        [own] = lists = deal(student, 24, 1, pad=pad)
        assert_each_once(lists, 24, f"24 samples on 1 rank, pad={pad}")
        assert own != sorted(own), f"24 samples on 1 rank, pad={pad}: the order is not shuffled, expected a random one."


@check(
    hints=(
        "The lists are pieces of one permutation. What do the ranks know that all have in common?",
        "Whatever differs between ranks (the rank, the random state of the process) must not enter the permutation.",
    )
)
def check_the_ranks_share_one_order(student: Student) -> None:
    """On 2, 3, 4 and 5 ranks each of 60 samples is in exactly one list, and all lists have the same length."""
    for world_size, pad in product((2, 3, 4, 5), (False, True)):
        what = f"60 samples on {world_size} ranks, pad={pad}"
        lists = deal(student, 60, world_size, pad=pad)
        assert_each_once(lists, 60, what)
        assert_equal([len(own) for own in lists], [60 // world_size] * world_size, f"{what}: samples of rank")


@check(
    hints=(
        "Print two epochs of the starter side by side. What told your permutation that a new one has begun?",
        "Make the shuffling seed out of both, seed and epoch.",
        "Shuffle all samples, then deal them: a rank that shuffles only its own share sees the same samples for ever.",
    )
)
def check_every_epoch_has_its_own_order(student: Student) -> None:
    """Another epoch or seed deals other samples in another order; the same ones deal the same again."""
    epochs = [deal(student, 24, 2, epoch=epoch, pad=True) for epoch in range(4)]
    for first, second in combinations(range(4), 2):
        for rank in range(2):
            before, after = epochs[first][rank], epochs[second][rank]
            what = f"24 samples on 2 ranks: in epochs {first} and {second} rank {rank} sees the same"
            assert before != after, f"{what} order, expected another one."
            assert set(before) != set(after), f"{what} samples in another order, expected other samples."
    for epoch in (0, 3):
        again = deal(student, 24, 2, epoch=epoch, pad=True, state=1)
        assert_equal(again, epochs[epoch], f"24 samples on 2 ranks, dealt again in epoch {epoch}: list")
    other = deal(student, 24, 2, seed=905, pad=True)
    assert other != epochs[0], "24 samples on 2 ranks: the seeds 5 and 905 deal the same lists, expected others."


@check(
    hints=(
        "Seven samples on five ranks: how many does each rank get if all get the same number and none is left out?",
        "Repeat samples until the lists are full. With fewer samples than ranks, once round is not enough.",
    )
)
def check_training_lists_are_equally_long(student: Student) -> None:
    """Padded lists have equal lengths, miss no sample and repeat as evenly as possible."""
    for world_size, n in product((2, 3, 4, 5), (1, 2, 7, 11)):
        lists, what = deal(student, n, world_size, pad=True), f"{n} samples on {world_size} ranks, pad=True"
        share = int(np.ceil(n / world_size))
        assert_equal([len(own) for own in lists], [share] * world_size, f"{what}: samples of rank")
        counts = np.bincount(np.concatenate(lists), minlength=n)
        assert counts.min() > 0, f"{what}: sample {counts.argmin()} is in no list, expected every one."
        uneven = f"sample {counts.argmax()} is there {counts.max()} times and sample {counts.argmin()} {counts.min()}"
        assert counts.max() - counts.min() <= 1, f"{what}: {uneven}, expected at most one more."


@check(
    hints=(
        "Who needs lists of equal length in an evaluation? Count how often each image would be scored.",
        "Neither repeat samples nor leave the last ones out: `pad` says which use it is.",
    )
)
def check_an_evaluation_sees_each_sample_once(student: Student) -> None:
    """Without padding each sample is in exactly one list, and the lengths differ by at most one."""
    for world_size, n in product((2, 3, 4, 5), (1, 2, 7, 11, 21)):
        lists, what = deal(student, n, world_size), f"{n} samples on {world_size} ranks, pad=False"
        assert_each_once(lists, n, what)
        lengths = [len(own) for own in lists]
        even = max(lengths) - min(lengths) <= 1
        assert even, f"{what}: the lists have the lengths {lengths}, expected a difference of at most one."


def assert_mean(student: Student, parts: list[tuple[float, int]], *groups: tuple[int, ...]) -> None:
    """Take the mean over each group of simulated ranks, by default all, with these sums and counts."""
    group_of = {rank: group for group in groups or [tuple(range(len(parts)))] for rank in group}
    for result in student.simulated("global_mean", [(*part, Group(group_of[i])) for i, part in enumerate(parts)]):
        group = group_of[result.rank]
        totals, counts = np.array([parts[member] for member in group], dtype=np.float64).T
        held = counts > 0
        mistakes = {"the mean of the ranks' means": float(np.mean(totals[held] / counts[held]))}
        what = f"rank {result.rank} of {list(group)}, with {parts[result.rank][1]} samples: the mean"
        assert_close(result.value, float(totals.sum() / counts.sum()), what, mistakes=mistakes)


@check(
    hints=(
        "One rank has 11 samples and one has 10. Whose samples weigh more in a mean of two means?",
        "Add up sums and counts over the ranks, on all ranks, and divide once at the end.",
        "A float32 holds seven digits. Which dtype does torch.tensor give to Python's floats?",
    )
)
def check_every_sample_has_the_same_weight(student: Student, rng: np.random.Generator) -> None:
    """Every rank gets the mean over all samples of its group, however many each rank has, in float64."""
    for counts, groups in (([11, 10], ()), ([1, 1000, 7], ()), ([4, 3, 3, 3, 9], [(0, 1), (2, 3, 4)])):
        assert_mean(student, [(float(rng.normal(3, 1, size=count).sum()), count) for count in counts], *groups)


@check(
    hints=(
        "Two samples on three ranks: one rank has none. What does it divide by, and does it still take part?",
        "A rank without samples adds zeros. It must make the same calls as the others and get the same answer.",
    )
)
def check_a_rank_without_samples_takes_part(student: Student) -> None:
    """A rank with no sample neither fails nor stays away, and gets the mean too."""
    assert_mean(student, [(0.75, 1), (0.25, 1), (0.0, 0)])
    assert_mean(student, [(0.0, 0), (3.5, 2)])

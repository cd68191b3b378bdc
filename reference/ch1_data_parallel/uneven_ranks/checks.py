"""Hidden checks of uneven_ranks, in teaching order: even data, uneven ends, weights, then an early stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grader.judging import Group, RankResult, Student, assert_close, assert_equal, check, tensor

Array = np.ndarray[Any, Any]
Batches = list[list[tuple[Array, Array]]]  # by rank and step
Verb = Callable[..., list[RankResult]]
INPUTS, OUTPUTS = 3, 2


def drawn(rng: np.random.Generator, sizes: Sequence[Sequence[int]]) -> Batches:
    """Return batches with these numbers of samples, by rank and step."""
    return [[(rng.normal(size=(n, INPUTS)), rng.normal(size=(n, OUTPUTS))) for n in rank] for rank in sizes]


class Epoch:
    """Train on ranks with batches of their own, and know what one process would have done."""

    def __init__(self, verb: Verb, rng: np.random.Generator, batches: Batches, groups: int = 1) -> None:
        """Draw a model and train; the ranks are cut into groups of equal size, each of which is on its own."""
        sizes = [[len(x) for x, _ in own] for own in batches]
        self.batches, self.words, self.p = batches, f"batches of {sizes} samples by rank", len(batches) // groups
        self.start = {"weight": rng.normal(size=(OUTPUTS, INPUTS)), "bias": rng.normal(size=OUTPUTS)}
        pairs = [[(tensor(x), tensor(y)) for x, y in own] for own in batches]
        per_rank = [(own, Group(self.group_of(rank))) for rank, own in enumerate(pairs)]
        common = (tensor(self.start["weight"]), tensor(self.start["bias"]))
        self.results = verb("harness.trained", per_rank, common=common)

    def group_of(self, rank: int) -> tuple[int, ...]:
        """Return the ranks that train with this one."""
        first = rank - rank % self.p
        return tuple(range(first, first + self.p))

    def expected(self, rank: int, weigh: Callable[[list[int]], list[float]]) -> list[dict[str, Array]]:
        """Return the model after each step of one process; `weigh` gives each present batch's weight from its sizes."""
        model, speed, after = dict(self.start), dict.fromkeys(self.start, 0.0), []
        group = [self.batches[member] for member in self.group_of(rank)]
        for step in range(max(map(len, group))):
            present = [own[step] for own in group if len(own) > step]
            if any(np.isnan(y).any() for _, y in present):
                break
            gradients = {name: np.zeros_like(value) for name, value in model.items()}
            for (x, y), weight in zip(present, weigh([len(x) for x, _ in present]), strict=True):
                error = 2 * weight * (x @ model["weight"].T + model["bias"] - y) / y.size
                gradients["weight"] += error.T @ x
                gradients["bias"] += error.sum(axis=0)
            speed = {name: 0.9 * speed[name] + gradient for name, gradient in gradients.items()}
            model = {name: value - 0.1 * speed[name] for name, value in model.items()}
            after.append(model)
        return after

    def compare(self) -> None:
        """Compare the number of steps and the model after each, on every rank."""
        known = {
            "a step with one vote for each rank, also those without data": lambda sizes: [1 / self.p] * len(sizes),
            "a step with one vote for each batch, however large": lambda sizes: [1 / len(sizes)] * len(sizes),
            "a step with the sum of the ranks' gradients": lambda sizes: [1.0] * len(sizes),
        }
        for result in self.results:
            expected = self.expected(result.rank, lambda sizes: [size / sum(sizes) for size in sizes])
            mistakes = {name: self.expected(result.rank, weigh) for name, weigh in known.items()}
            after, where = result.value["after"], f"{self.words}: rank {result.rank}"
            assert_equal(len(after), len(expected), f"{where}: the number of steps that the optimizer took")
            for step, model in enumerate(expected):
                right = {name: tensor(value) for name, value in model.items()}
                wrong = {name: steps[step] for name, steps in mistakes.items()}
                for key in right:
                    told = {name: value[key] for name, value in wrong.items()}
                    assert_close(after[step][key], right[key], f"{where} after step {step + 1}: {key}", mistakes=told)
            assert_equal(result.value["steps"], len(expected), f"{where}: the number of steps returned")


@check(
    hints=(
        "Even data need no agreement, and still all ranks take one common step. What is its gradient?",
        "Each rank's mean gradient, weighted by its share of the step's samples.",
    )
)
def check_even_data_train_as_one_process(student: Student, rng: np.random.Generator) -> None:
    """With equal numbers of equal batches, 1, 2 and 3 ranks train as one process does."""
    for ranks in (1, 2, 3):
        Epoch(student.simulated, rng, drawn(rng, [[4, 4]] * ranks)).compare()


@check(
    hints=(
        "One rank is done and leaves. Which collective do the others wait in, and who could have told them?",
        "Before every step, let all ranks learn whether anybody has a batch left. Who has none goes on with zeros.",
    )
)
def check_everybody_goes_on_until_all_are_done(student: Student, rng: np.random.Generator) -> None:
    """With unequal numbers of batches every rank takes as many steps as the longest needs, and nobody hangs."""
    for counts in ((1, 3), (3, 1), (2, 0, 3), (0, 2), (1, 4, 2, 3)):
        epoch = Epoch(student.simulated, rng, drawn(rng, [[4] * count for count in counts]))
        for result in epoch.results:
            what = f"{list(counts)} batches by rank: steps that rank {result.rank} took"
            mistakes = {"its own number of batches": counts[result.rank], "the shortest rank's": min(counts)}
            steps = len(result.value["after"])
            assert_equal(steps, max(counts), what, mistakes={n: v for n, v in mistakes.items() if v != max(counts)})


@check(
    hints=(
        "Two of three ranks still have data. By how much is their sum divided, and how many samples are in it?",
        "A rank without data has no vote, and a small batch has a small one: divide by the samples of this step.",
    )
)
def check_each_sample_of_a_step_weighs_the_same(student: Student, rng: np.random.Generator) -> None:
    """Each step has the gradient of all its group's samples, whichever ranks and batches they come from."""
    for sizes in ([[4], [4, 4]], [[2, 2], [2], [2, 2, 2]], [[5, 1], [2, 3]], [[1, 4, 2], [], [3, 1]], [[], [3, 1]]):
        Epoch(student.simulated, rng, drawn(rng, sizes)).compare()
    Epoch(student.simulated, rng, drawn(rng, [[2, 1], [3], [1], [4, 2, 1]]), groups=2).compare()


@check(
    hints=(
        "One rank sees a NaN and leaves the loop. How do the others come to know it, before they step?",
        "Let the stop be part of what the ranks tell each other. Whoever sees it, all must act on it.",
    )
)
def check_a_bad_loss_anywhere_stops_everybody(student: Student, rng: np.random.Generator) -> None:
    """A loss that is not finite on any rank stops all ranks before that step, with the model of the last one."""
    last_alone = [[2], [2, 2], [2, 2, 2]]
    for sizes, rank, step in (([[2, 2, 2]] * 2, 1, 1), ([[2, 2, 2]] * 3, 0, 2), (last_alone, 2, 2), ([[2]], 0, 0)):
        batches = drawn(rng, sizes)
        batches[rank][step][1][0, 0] = np.nan
        epoch = Epoch(student.simulated, rng, batches)
        for result in epoch.results:
            what = f"{epoch.words}, a NaN on rank {rank} in step {step + 1}: steps that rank {result.rank} took"
            assert_equal(len(result.value["after"]), step, what)
        epoch.compare()


@check(
    hints=("What works on the simulated network should on a real one: do your calls match in kind, shape and dtype?",),
    guards="the same on real ranks, all at once",
)
def check_real_ranks_do_the_same(student: Student, rng: np.random.Generator) -> None:
    """Three real ranks with uneven data stop together at a NaN, after the right steps."""
    batches = drawn(rng, [[2], [3, 1, 2], [1, 4]])
    batches[1][2][1][0, 0] = np.nan
    Epoch(student.ranks, rng, batches).compare()

"""Hidden checks of accumulate_once, in teaching order: plain steps, replicas, the big batch, the rest, the traffic."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import RankResult, Student, assert_close, assert_equal, check, tensor

Model = dict[str, np.ndarray[Any, Any]]
SAMPLES, INPUTS, OUTPUTS = 2, 3, 2  # of one micro-batch


class Run:
    """Train on simulated ranks with micro-batches of their own, and know what one process would have done."""

    def __init__(self, student: Student, rng: np.random.Generator, ranks: int, batches: int, window: int) -> None:
        """Draw data and a model, and train."""
        self.window, self.words = window, f"{ranks} ranks, {batches} micro-batches in windows of {window}"
        self.x = rng.normal(size=(ranks, batches, SAMPLES, INPUTS))
        self.y = rng.normal(size=(ranks, batches, SAMPLES, OUTPUTS))
        self.start: Model = {"weight": rng.normal(size=(OUTPUTS, INPUTS)), "bias": rng.normal(size=OUTPUTS)}
        pairs = [list(zip(map(tensor, x), map(tensor, y), strict=True)) for x, y in zip(self.x, self.y, strict=True)]
        common = (window, tensor(self.start["weight"]), tensor(self.start["bias"]))
        self.results: list[RankResult] = student.simulated("harness.trained", [(own,) for own in pairs], common=common)

    def expected(self, divisor: int | None = None) -> list[Model]:
        """Return the model after each step of one process; `divisor` replaces the window's own length."""
        model, speed, after = dict(self.start), dict.fromkeys(self.start, 0.0), []
        for first in range(0, self.x.shape[1], self.window):
            window = slice(first, first + self.window)
            x, y = self.x[:, window].reshape(-1, INPUTS), self.y[:, window].reshape(-1, OUTPUTS)
            error = 2 * (x @ model["weight"].T + model["bias"] - y) / y.size
            scale = self.x[0, window].shape[0] / divisor if divisor else 1.0
            gradients = {"weight": scale * error.T @ x, "bias": scale * error.sum(axis=0)}
            speed = {name: 0.9 * speed[name] + gradient for name, gradient in gradients.items()}
            model = {name: value - 0.1 * speed[name] for name, value in model.items()}
            after.append(model)
        return after

    def compare(self, divisor: int, name: str) -> None:
        """Compare every rank after every step; `divisor` is a mistake called `name`."""
        expected, mistaken = self.expected(), self.expected(divisor)
        for result in self.results:
            after, where = result.value["after"], f"{self.words}: rank {result.rank}"
            assert_equal(len(after), len(expected), f"{where}: the number of times that the optimizer stepped")
            for step, (model, right, wrong) in enumerate(zip(after, expected, mistaken, strict=True), 1):
                mistakes = {name: wrong} if divisor != self.window or step == len(expected) else {}
                right = {key: tensor(value) for key, value in right.items()}
                assert_close(model, right, f"{where} after step {step}: model", mistakes=mistakes)
            assert_equal(result.value["steps"], len(expected), f"{where}: the number of steps returned")


@check(
    hints=(
        "With windows of one micro-batch nothing accumulates. Does every backward synchronise then?",
        "A window's last micro-batch is the only one here. It must run outside of no_sync().",
    )
)
def check_windows_of_one_are_plain_steps(student: Student, rng: np.random.Generator) -> None:
    """With one micro-batch a window, every step is that of ordinary data-parallel training."""
    for ranks in (1, 2):
        Run(student, rng, ranks, batches=3, window=1).compare(2, "half of each gradient")


@check(
    hints=(
        "Follow .grad on one rank through a window. At which point is it the mean over ranks, and what is added later?",
        "DDP averages what has accumulated until then. Which micro-batch of a window sees all of it?",
    )
)
def check_replicas_stay_equal(student: Student, rng: np.random.Generator) -> None:
    """After every step all ranks hold exactly the same weights."""
    for ranks, window in ((2, 2), (3, 4)):
        run = Run(student, rng, ranks, batches=4, window=window)
        first = run.results[0].value["after"]
        for result in run.results[1:]:
            what = f"{run.words}: rank {result.rank}, compared with rank 0: model after step"
            assert_close(result.value["after"], first, what, atol=0.0)


@check(
    hints=(
        "backward() adds. What do the gradients of four mean losses add up to, and what is the gradient of their mean?",
        "Divide each micro-batch's loss by the number of micro-batches in its window.",
    )
)
def check_a_window_is_one_big_batch(student: Student, rng: np.random.Generator) -> None:
    """Each step equals that of one process with all samples of the window, on 1, 2 and 3 ranks."""
    for ranks, window in ((1, 2), (2, 2), (3, 4)):
        Run(student, rng, ranks, batches=4, window=window).compare(1, "the sum over the window's micro-batches")


@check(
    hints=(
        "Five micro-batches in windows of two: what happens to the fifth?",
        "The last window makes a step too. By how many micro-batches must its losses be divided?",
    )
)
def check_a_short_window_counts_in_full(student: Student, rng: np.random.Generator) -> None:
    """The last window makes a step with the mean over its own samples, also if it is the only one."""
    for ranks, batches, window in ((2, 5, 2), (2, 3, 4), (3, 5, 3)):
        Run(student, rng, ranks, batches, window).compare(window, "the short window divided by a full one's length")


@check(
    hints=(
        "Count the all-reduces of one window. Which backwards talk to other ranks although told not to?",
        "DDP decides in the forward whether the backward will synchronise. What does your no_sync() enclose?",
    ),
    judged_by="network",
)
def check_the_gradient_travels_once_a_step(student: Student, rng: np.random.Generator) -> None:
    """In all-reduces every rank contributes exactly one gradient's bytes a step."""
    for ranks, batches, window in ((2, 4, 4), (3, 5, 2)):
        run = Run(student, rng, ranks, batches, window)
        steps, gradient_bytes = -(-batches // window), 8 * (OUTPUTS * INPUTS + OUTPUTS)
        for result in run.results:
            sent = sum(call.payload_bytes for call in result.calls if call.op == "all_reduce") / gradient_bytes
            mistakes = {"one for every micro-batch": float(batches)}
            what = f"{run.words}, {steps} steps: gradients that rank {result.rank} contributed to all-reduces"
            assert_close(sent, float(steps), what, mistakes=mistakes)

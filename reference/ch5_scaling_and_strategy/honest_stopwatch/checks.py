"""Hidden checks of honest_stopwatch, in teaching order: one step, what came before it, its kernels, then ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check

LAUNCH_S = 5e-6


def alone_s(run_s: Sequence[float], launch_s: float = LAUNCH_S) -> float:
    """Return when a device that was idle has run kernels which the host launches one after the other."""
    end_s = 0.0
    for number, seconds in enumerate(run_s, 1):
        end_s = max(end_s, number * launch_s) + seconds
    return end_s


def assert_steps(
    student: Student, kernels: Sequence[str], n_warmup: int, expected: Sequence[float], what: str,
    mistakes: dict[str, float], rtol: float = 1e-6, **device: Any,
) -> None:  # fmt: skip
    """Compare the seconds of each step on a device, and what was launched there; some launches may hide within 1 %."""
    device = {"launch_s": LAUNCH_S, **device}
    answer = student.call("harness.timed", list(kernels), device, n_warmup, len(expected)).value
    assert_equal(len(answer["seconds"]), len(expected), f"{what}: the number of times returned")
    for step, seconds in enumerate(expected):
        where = f"{what}: step {step} of {len(expected)}"
        assert_close(answer["seconds"][step], seconds, where, rtol=rtol, unit="s", mistakes=mistakes)
    ran = answer["launched"]
    assert ran == list(kernels) * (n_warmup + len(expected)), (
        f"{what}: {len(ran)} kernels were launched, expected the {len(kernels)} of a step, in order, "
        f"{n_warmup} + {len(expected)} times."
    )


@check(
    hints=(
        "The example's matrix product runs at more than 100 % of the peak. What did the device do in that time?",
        "launch returns when the kernel is in the queue. When may you read the clock for the end of a step?",
    )
)
def check_a_step_lasts_until_the_device_is_done(student: Student) -> None:
    """A step's time ends when the device has run its last kernel, not when the host has launched it."""
    for kernels, run_s in ((["matmul"], {"matmul": 1.36e-3}), (["a", "b"], {"a": 0.8e-3, "b": 2.5e-3})):
        mistakes = {"the time that the host needs to launch": LAUNCH_S * len(kernels)}
        what = f"{len(kernels)} kernels on an idle device" if len(kernels) > 1 else "one kernel on an idle device"
        assert_steps(student, kernels, 0, [alone_s([run_s[k] for k in kernels])], what, mistakes, 0.01, run_s=run_s)


@check(
    hints=(
        "Somebody's evaluation is still running when your stopwatch starts. On whose account does the first step wait?",
        "Waiting at the end of a step waits for all that is queued. What has to be true of the queue at its start?",
    )
)
def check_work_queued_before_is_not_in_the_time(student: Student) -> None:
    """What others launched before the first step is in nobody's time."""
    for queued_s in (0.25, 1e-3):
        step_s = alone_s([1.36e-3])
        mistakes = {"the step and the work that was queued before it": queued_s - LAUNCH_S + step_s}
        what = f"a device with {queued_s} s of work left"
        assert_steps(student, ["m"], 0, [step_s] * 2, what, mistakes, 0.01, run_s={"m": 1.36e-3}, queued_s=queued_s)


@check(
    hints=(
        "The first launch of a kernel compiles it, and its first runs are slow. Which steps are there to absorb that?",
        "Warm-up steps are run in full and in addition; their times are not returned, and their queue has to be empty.",
    )
)
def check_warm_up_leaves_no_trace(student: Student) -> None:
    """Warm-up steps run first, and neither compiling nor the slow first runs are in a time that is returned."""
    runs = {"a": [9e-3, 4e-3, 1e-3], "b": [7e-3, 7e-3, 2e-3]}
    step_s = alone_s([1e-3, 2e-3])
    mistakes = {"a time of a warm-up step": 0.8 * 2 + alone_s([9e-3, 7e-3])}
    for n, words in ((2, "two steps of warm-up"), (6, "six steps of warm-up")):
        assert_steps(student, ["a", "b"], n, [step_s] * 4, words, mistakes, 0.01, run_s=runs, compile_s=0.8)
    assert_steps(student, ["c"], 1, [alone_s([1e-3])], "one step of warm-up", {}, 0.01, run_s={"c": [5e-3, 1e-3]})


@check(
    hints=(
        "While the device runs one kernel the host launches the next ones. Does your stopwatch let it?",
        "Wait for the device twice a step at most: around it, not after each kernel.",
    )
)
def check_the_host_may_run_ahead(student: Student) -> None:
    """Within a step launches hide behind kernels that run: waiting after each kernel would make it longer."""
    for run_s, launch_s, n in ((20e-6, 5e-6, 100), (4e-6, 5e-6, 50), (1e-3, 10e-6, 3)):
        step_s = alone_s([run_s] * n, launch_s)
        mistakes = {"launch and run of every kernel, one after the other": n * (run_s + launch_s)}
        what = f"{n} kernels of {run_s * 1e6:.0f} µs, {launch_s * 1e6:.0f} µs to launch one"
        assert_steps(student, ["k"] * n, 1, [step_s] * 3, what, mistakes, run_s={"k": run_s}, launch_s=launch_s)


@check(
    hints=(
        "Every seventh step writes a checkpoint. Can somebody who reads your list find out?",
        "Read the clock around each step; the total divided by the number of steps has forgotten the slow ones.",
    )
)
def check_every_step_has_a_time_of_its_own(student: Student, rng: np.random.Generator) -> None:
    """Each step's own time is returned, in the order in which the steps ran."""
    runs = [float(s) for s in rng.uniform(1e-3, 2e-3, size=3 + 14)]
    runs[3 + 6] = runs[3 + 13] = 30e-3
    expected = [alone_s([s]) for s in runs[3:]]
    mistakes = {"the mean of all steps": float(np.mean(expected))}
    assert_steps(student, ["k"], 3, expected, "steps that differ", mistakes, run_s={"k": runs})


@check(
    hints=("`summary` was right before you changed it: the median, and the shortest time that 95 % do not exceed.",),
    guards="the summary that ships right",
)
def check_the_summary_shows_a_slow_tail(student: Student, rng: np.random.Generator) -> None:
    """The median ignores a stall, and the 95th percentile shows one that returns."""
    for n in (21, 41):  # here the conventions for quantiles agree
        seconds = rng.permutation(np.concatenate([rng.uniform(1.0, 1.1, n - n // 14), [3.0] * (n // 14)]))
        expected = {"median_s": float(np.median(seconds)), "p95_s": float(np.quantile(seconds, 0.95))}
        assert_close(student.call("summary", seconds.tolist()).value, expected, f"summary of {n} steps", unit="s")


@check(
    hints=(
        "Rank 3 came last and has the shortest time. Rank 0 came first. For what did rank 0 wait?",
        "Nothing is complete before the last rank has entered. From which moment can a rank's transfer be counted?",
    )
)
def check_waiting_is_not_transfer(student: Student, rng: np.random.Generator) -> None:
    """A rank's time in a collective is split where the last rank enters it."""
    story = ([0.0, 0.0154, 0.0199, 0.0206], [0.0233, 0.0234, 0.0233, 0.0234])
    cases = [story, ([3.0], [3.5]), ([2.0, 1.0], [4.0, 5.0])]
    entered = rng.uniform(10, 11, size=5)
    cases.append((entered.tolist(), (entered.max() + rng.uniform(0.1, 0.2, size=5)).tolist()))
    for entered_s, left_s in cases:
        spent = np.subtract(left_s, entered_s)
        expected = [(max(entered_s) - e, left - max(entered_s)) for e, left in zip(entered_s, left_s, strict=True)]
        mistakes = {"all the time in the call, booked as transfer": [(0.0, float(s)) for s in spent]}
        pairs = student.call("waiting_and_transfer", entered_s, left_s).value
        what = f"on {len(entered_s)} rank{'s' * (len(entered_s) > 1)}, waiting_and_transfer(...)"
        assert_close(pairs, expected, what, rtol=0, atol=1e-9, unit="s", mistakes=mistakes)

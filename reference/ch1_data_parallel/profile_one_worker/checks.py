"""Hidden checks of profile_one_worker, in teaching order: the baseline, its trustworthiness, then more workers."""

from __future__ import annotations

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check

WARM_UP_S = [1.914, 0.463, 0.121]
QUIET_S = [0.0979, 0.0977, 0.0981, 0.0975, 0.0978, 0.0980, 0.0976]


def steady(seconds: list[float]) -> dict[str, float]:
    """Return what the contract says of steady steps, by numpy."""
    step_s = float(np.median(seconds))
    spread_s = float(np.median(np.abs(np.subtract(seconds, step_s))))
    return {"step_s": step_s, "spread_s": spread_s, "samples_per_s": 8 / step_s}


def assert_baseline(student: Student, seconds: list[float], mistakes: dict[str, dict[str, float]]) -> None:
    """Compare the baseline of warm-up and `seconds`, 8 samples a step, number by number."""
    every = WARM_UP_S + seconds
    alone = student.call("baseline", every, [4_300_000_000] * len(every), 8).value
    assert_equal(sorted(alone), ["peak_bytes", "samples_per_s", "spread_s", "stable", "step_s"], "baseline: keys")
    for key, unit in (("step_s", "s"), ("spread_s", "s"), ("samples_per_s", "samples/s")):
        known = {name: values[key] for name, values in mistakes.items() if key in values}
        assert_close(alone[key], steady(seconds)[key], f"{key} of one worker", rtol=1e-9, mistakes=known, unit=unit)


@check(
    hints=(
        "Print the twelve recorded steps of the starter and look at the first three. Does training repeat them?",
        "Leave the warm-up out before anything is computed from the times, the throughput included.",
    )
)
def check_warm_up_does_not_count(student: Student) -> None:
    """The first three steps leave no trace in step time, spread and throughput."""
    every = WARM_UP_S + QUIET_S
    mean_s = float(np.mean(every))
    mistakes = {
        f"the mean of all {len(every)} steps, warm-up included": {"step_s": mean_s, "samples_per_s": 8 / mean_s},
        "the fastest step of all": {"step_s": min(every), "samples_per_s": 8 / min(every)},
    }
    assert_baseline(student, QUIET_S, mistakes)


@check(
    hints=(
        "One step in nine met a checkpoint being written. What would you call the typical step of the other eight?",
        "A mean and a standard deviation move with every value. Which middle and which spread do not?",
        "Both numbers are medians: one of the times, one of their distances from the first.",
    )
)
def check_one_stall_does_not_move_the_baseline(student: Student, rng: np.random.Generator) -> None:
    """One stalled step changes neither the typical step nor the spread."""
    seconds = [*QUIET_S, 0.3105, 0.0978]
    mean_s = float(np.mean(seconds))
    mistakes = {
        "the mean of the steady steps": {"step_s": mean_s, "samples_per_s": 8 / mean_s},
        "the standard deviation, which one stall rules": {"spread_s": float(np.std(seconds))},
    }
    assert_baseline(student, seconds, mistakes)
    drawn = rng.uniform(0.2, 0.21, size=15)
    drawn[rng.integers(15)] *= 20
    assert_baseline(student, drawn.tolist(), {})


@check(
    hints=(
        "Time and memory ask different questions of the same steps: how long usually, and how much at most?",
        "A run that does not fit into its first step never reaches the second. Which steps may the peak leave out?",
    )
)
def check_the_peak_is_the_highest_of_all_steps(student: Student) -> None:
    """Peak memory is the most that any step allocated, warm-up steps too."""
    for place, where in ((0, "the first warm-up step"), (5, "a steady step"), (9, "the last step")):
        allocated = [4_300_000_000] * 10
        allocated[place] = 6_100_000_000
        alone = student.call("baseline", WARM_UP_S + QUIET_S, allocated, 8).value
        mistakes = {"what the other steps allocated": 4_300_000_000}
        assert_equal(alone["peak_bytes"], 6_100_000_000, f"peak_bytes with the peak in {where}", mistakes=mistakes)


@check(
    hints=(
        "Two steady steps agree perfectly with each other. How much does that prove?",
        "`stable` has two conditions: enough steady steps, and a spread that is small beside a step.",
        "5 % of a step: compare spread_s with step_s, not with a number of seconds.",
    )
)
def check_a_shaky_measurement_is_called_unstable(student: Student) -> None:
    """A baseline is stable only with five steady steps or more and a spread of at most 5 % of a step."""
    cases = [
        ([0.1, 0.101, 0.099, 0.1, 0.102], True, "five steady steps with a spread of 1 % of a step"),
        ([0.1, 0.1, 0.1, 0.1], False, "four steady steps"),
        ([0.1, 0.13, 0.08, 0.12, 0.09, 0.1, 0.14], False, "a spread of 20 % of a step"),
        ([1e-3, 1.3e-3, 0.8e-3, 1.2e-3, 0.9e-3, 1e-3, 1.4e-3], False, "a spread of 20 % of a step of one millisecond"),
        ([10.0, 10.3, 9.8, 10.2, 9.9, 10.0, 10.4], True, "a spread of 2 % of a step of ten seconds"),
        ([19.0, 21.0, 20.0, 19.0, 21.0], True, "a spread of exactly 5 % of a step"),
        ([*QUIET_S, 0.3105, 0.0978], True, "one stall among nine steady steps"),
    ]
    for seconds, stable, what in cases:
        every = WARM_UP_S + seconds
        alone = student.call("baseline", every, [4_300_000_000] * len(every), 8).value
        assert_equal(alone["stable"], stable, f"stable, for {what} after three steps of warm-up,")


@check(
    hints=(
        "For two GPUs without NVLink the cost model says 150.1 ms, and for one 97.8 ms. Which does best_workers take?",
        "Throughput times workers leaves out what workers say to each other. Which function of the file does not?",
        "Ask the cost model for every possible number of workers and keep the one with the shortest step.",
    )
)
def check_workers_are_added_only_while_they_help(student: Student, rng: np.random.Generator) -> None:
    """The chosen number of workers has the shortest step by the cost model, the fewest workers if several have."""
    cases = [
        (0.0978, 0.1012, 2, "two GPUs without NVLink, 8 samples a step"),
        (0.0978, 0.0188, 8, "eight GPUs with NVLink, 8 samples a step"),
        (0.0978, 0.0, 8, "eight workers whose communication is free"),
        (0.1, 0.045, 4, "four workers with a middling link"),
        (0.25, 0.125, 4, "four workers of which two are no faster than one"),
    ]
    for step_s, added_s, workers in zip(*np.exp(rng.uniform(-5, 0, size=(2, 12))), range(1, 13), strict=True):
        cases.append((float(step_s), float(added_s) / 20, workers, f"up to {workers} workers"))
    for step_s, added_s, available, what in cases:
        alone = {"step_s": step_s, "spread_s": 0.0, "samples_per_s": 8 / step_s, "peak_bytes": 1, "stable": True}
        cluster = {"workers": available, "added_worker_s": added_s}
        counts = np.arange(1, available + 1)
        steps = step_s / counts + added_s * (counts - 1)
        costs = f"{step_s * 1e3:.1f} ms a step alone and {added_s * 1e3:.1f} ms for each added worker"
        predicted = student.call("predicted_step_s", alone, cluster, available).value
        assert_close(predicted, float(steps[-1]), f"predicted_step_s for all of {what} ({costs})", unit="s")
        chosen, best = student.call("best_workers", alone, cluster).value, int(counts[np.argmin(steps)])
        assert_equal(chosen, best, f"best_workers for {what} ({costs})", mistakes={"all there are": available})


@check(
    hints=(
        "A decision cannot be better than the measurement it rests on. What should happen when that is not stable?",
        "Raise the ValueError before you compare any numbers of workers, whatever they would say.",
    )
)
def check_nobody_decides_on_an_unstable_baseline(student: Student) -> None:
    """An unstable baseline is refused with a ValueError, however clear the answer looks."""
    for added_s in (0.0, 1.0):
        alone = {"step_s": 0.1, "spread_s": 0.02, "samples_per_s": 80.0, "peak_bytes": 1, "stable": False}
        ended = student.call("harness.refusal", alone, {"workers": 4, "added_worker_s": added_s}).value
        assert ended == "refused", f"best_workers {ended} on an unstable baseline, expected a ValueError."

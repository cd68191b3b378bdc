"""Hidden checks of useful_batch, in teaching order: the noise scale, what it buys, the rate, then lost ranks."""

from __future__ import annotations

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check


@check(
    hints=(
        "A squared norm is |G|² + tr(Σ)/B on average. Two sizes of batches give two equations: solve them for both.",
        "Divide at the very end: the mean of all estimates of tr(Σ) by the mean of all estimates of |G|².",
    )
)
def check_the_noise_scale_is_a_ratio_of_means(student: Student, rng: np.random.Generator) -> None:
    """From squared norms of two sizes both parts are estimated without bias, averaged, and only then divided."""
    for n, b, big_b in ((1, 8, 64), (5, 8, 64), (200, 2, 32), (200, 10, 12)):
        signal, trace = rng.uniform(1, 2, size=n), rng.uniform(50, 100, size=n)
        small, big = signal + trace / b, signal + trace / big_b
        g2, tr = (big_b * big - b * small) / (big_b - b), (small - big) / (1 / b - 1 / big_b)
        expected = float(tr.mean() / g2.mean())
        mistakes = {
            "the mean of the ratios of single steps": float(np.mean(tr / g2)),
            "the big batch's norm taken for the gradient's": float(tr.mean() / big.mean()),
            "its inverse": 1 / expected,
            "the variance of one small batch, not of one sample": expected / b,
        }
        found = student.call("noise_scale", small.tolist(), big.tolist(), b, big_b).value
        known = {name: value for name, value in mistakes.items() if abs(value / expected - 1) > 1e-6}
        assert_close(found, expected, f"noise_scale, steps: {n}, batches {b} and {big_b},", rtol=1e-9, mistakes=known)


@check(
    hints=(
        "With few steps the estimate of |G|² may come out negative. What would a negative noise scale mean?",
        "Look at the mean before you divide by it, and raise the ValueError.",
    )
)
def check_too_few_steps_are_refused(student: Student) -> None:
    """A gradient that cannot be told from its noise is a ValueError, and one negative step among good ones is not."""
    for small, big in (([9.0], [1.0]), ([8.0, 8.0], [1.0, 1.0]), ([9.0, 9.0], [0.9, 1.3])):
        ended = student.call("harness.refusal", "noise_scale", small, big, 8, 64).value
        assert ended == "refused", f"noise_scale {ended} from squared norms {small} and {big}, expected a ValueError."
    found = student.call("noise_scale", [0.9, 0.5], [0.09, 0.3], 8, 64).value
    signal, trace = (64 * 0.195 - 8 * 0.7) / 56, (0.7 - 0.195) / (1 / 8 - 1 / 64)
    assert_close(found, trace / signal, "noise_scale of two steps of which one alone would be refused", rtol=1e-9)


@check(
    hints=(
        "The equation has two unknowns, S and E. What is E, for batches of B?",
        "Put E = B·S into the hyperbola: it becomes linear in S, with two summands.",
    )
)
def check_steps_and_samples_are_traded(student: Student, rng: np.random.Generator) -> None:
    """Steps and samples lie on the hyperbola, from least samples to least steps, twice both at the noise scale."""
    for min_steps, min_examples in ((10_000.0, 640_000.0), (300.0, 5e6), *np.exp(rng.uniform(3, 12, size=(4, 2)))):
        noise = min_examples / min_steps
        for batch in (noise / 100, noise / 3, noise, noise * 7, noise * 1000):
            steps = float(min_steps * (1 + noise / batch))
            found = student.call("steps_and_examples", float(min_steps), float(min_examples), float(batch)).value
            what = f"(steps, samples) for S_min {min_steps:.6g}, E_min {min_examples:.6g}, batch {batch:.6g}"
            mistakes = {"half the steps for twice the batch, for ever": (min_examples / batch, min_examples)}
            assert_close(found, (steps, steps * float(batch)), what, rtol=1e-9, mistakes=mistakes)


@check(
    hints=(
        "At a batch of 4096 the starter's rate is 25.6. On |x|²/2, what does a step of rate 25.6 do to x?",
        "The rate needs a ceiling that no batch exceeds: which factor of the contract has one?",
    )
)
def check_no_batch_diverges(student: Student, rng: np.random.Generator) -> None:
    """On a noisy quadratic every batch converges, and larger batches end nearer to the minimum."""
    batches = [8, 64, 512, 4096, 65536]
    ends = student.call("harness.distances", batches, int(rng.integers(2**31))).value
    for batch, distance in zip(batches, ends, strict=True):
        assert distance < 6.0, (
            f"With a batch of {batch} training ends at a distance of {distance:.3g} and started at 4.47."
        )
    assert ends[-1] < 0.2, (
        f"With a batch of 65536 there is no noise left, yet training ends at {ends[-1]:.3g}, not at 0."
    )


@check(
    hints=(
        "Which batch is base_rate right for? The rule has to give it back there.",
        "rate(B) = base_rate · (1 + noise/base_batch) / (1 + noise/B): linear for small B, flat for large.",
    )
)
def check_the_rate_saturates(student: Student, rng: np.random.Generator) -> None:
    """After warm-up the rate is proportional to 1/(1 + noise/B), and the base rate at the base batch."""
    noises = [100.0, 1.0, 1e6, *np.exp(rng.uniform(0, 14, size=4))]
    cases = [[0.1, 256, int(256 * k), float(noise), 10, 10] for noise in noises for k in (0.25, 1, 2, 32, 4096)]
    for case, found in zip(cases, student.call("harness.rates", cases).value, strict=True):
        base, b0, batch, noise = case[:4]
        expected = base * (1 + noise / b0) / (1 + noise / batch)
        mistakes = {
            "the linear rule": base * batch / b0,
            "the square-root rule": base * (batch / b0) ** 0.5,
            "the linear rule up to the noise scale": base * min(batch, noise) / b0,
            "a rate that is the base rate for an endless batch": base / (1 + noise / batch),
        }
        known = {name: value for name, value in mistakes.items() if abs(value / expected - 1) > 1e-6}
        what = f"learning_rate from {base} at {b0} to a batch of {batch}, noise scale {noise:.6g},"
        assert_close(found, expected, what, rtol=1e-9, mistakes=known)


@check(
    hints=(
        "Right after the start gradients change fastest. From which rate does the ramp begin, and where does it end?",
        "A straight line in the step: base_rate at step 0, the batch's own rate at step warmup_steps and ever after.",
    )
)
def check_warm_up_is_a_ramp(student: Student) -> None:
    """The rate goes in a straight line from the base rate to that of the batch, and then stays."""
    cases = [[0.1, 256, batch, 500.0, step, 20] for batch in (8192, 128) for step in (0, 1, 7, 19, 20, 21, 5000)]
    cases += [[0.1, 256, 8192, 500.0, step, 0] for step in (0, 3)]
    for case, found in zip(cases, student.call("harness.rates", cases).value, strict=True):
        base, b0, batch, noise, step, warmup = case
        target = base * (1 + noise / b0) / (1 + noise / batch)
        expected = base + (target - base) * (min(step / warmup, 1) if warmup else 1)
        mistakes = {"the rate without warm-up": target} if step < warmup else {}
        what = f"learning_rate of step {step} with {warmup} steps of warm-up, batch {batch},"
        assert_close(found, expected, what, rtol=1e-9, mistakes=mistakes)


@check(
    hints=(
        "Add up the micro-batches of all ranks. Is it the global batch, on 7 ranks, too? And of 510 samples in eights?",
        "Some ranks accumulate one micro-batch more; what no number of micro-batches makes up is a ValueError.",
    )
)
def check_the_global_batch_survives_lost_ranks(student: Student) -> None:
    """Whatever the number of ranks, their micro-batches make up the global batch, as evenly as possible."""
    for global_batch, micro, ranks in ((512, 8, 8), (512, 8, 7), (512, 8, 1), (96, 4, 5), (16, 4, 6), (2520, 1, 2519)):
        total = global_batch // micro
        expected = [len(part) for part in np.array_split(np.arange(total), ranks)]
        found = student.call("micro_batches", global_batch, micro, ranks).value
        what = f"micro_batches of {micro} for {global_batch} samples on {ranks} ranks"
        mistakes = {"as many for each rank, so that samples are lost": [total // ranks] * ranks}
        mistakes["as many for each rank, so that samples are added"] = [-(-total // ranks)] * ranks
        assert_equal(found, expected, what, mistakes={k: v for k, v in mistakes.items() if v != expected})
    for global_batch, micro, ranks in ((510, 8, 2), (7, 2, 1)):
        ended = student.call("harness.refusal", "micro_batches", global_batch, micro, ranks).value
        assert ended == "refused", (
            f"micro_batches of {micro} for {global_batch} samples {ended}, expected a ValueError."
        )

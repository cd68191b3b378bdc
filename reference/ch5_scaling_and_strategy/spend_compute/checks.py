"""Hidden checks of spend_compute, in teaching order: the best plan of a law, its digits, a sweep, smaller models."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Student, assert_close, check

Law = dict[str, float]
PRINTED = {"E": 1.69, "A": 406.4, "B": 410.7, "alpha": 0.34, "beta": 0.28}
UNROUNDED = {"E": 1.6934, "A": 406.4, "B": 410.7, "alpha": 0.3392, "beta": 0.2849}  # of the paper's source
REPLICATED = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
# Hoffmann et al. 2022, table 3: compute, parameters, tokens by approach 1; the tolerance is that of the printed digits.
TABLE_3 = (
    (1.92e19, 400e6, 8.0e9, 0.01), (1.21e20, 1e9, 20.2e9, 0.01), (1.23e22, 10e9, 205.1e9, 0.01),
    (5.76e23, 67e9, 1.5e12, 0.07), (3.85e24, 175e9, 3.7e12, 0.02), (9.90e24, 280e9, 5.9e12, 0.02),
    (3.43e25, 520e9, 11.0e12, 0.01), (1.27e26, 1e12, 21.2e12, 0.01), (1.30e28, 10e12, 216.2e12, 0.01),
)  # fmt: skip


def drawn(rng: np.random.Generator, n: int) -> list[Law]:
    """Return laws whose constants are about those of language models."""
    ranges = {"E": (1.0, 2.0), "A": (200.0, 900.0), "B": (300.0, 3000.0), "alpha": (0.25, 0.45), "beta": (0.25, 0.45)}
    return [{name: float(rng.uniform(*ends)) for name, ends in ranges.items()} for _ in range(n)]


def losses(law: Law, parameters: Any, tokens: Any) -> Any:
    """Return what the law predicts."""
    return law["E"] + law["A"] / parameters ** law["alpha"] + law["B"] / tokens ** law["beta"]


def best_parameters(law: Law, compute: float) -> float:
    """Find the least loss by halving the interval in which its slope, along 6ND = C, changes its sign."""
    low, high = 0.0, 60.0  # log N
    for _ in range(200):
        middle = (low + high) / 2
        tokens = compute / (6 * np.exp(middle))
        falls = law["alpha"] * law["A"] * np.exp(-law["alpha"] * middle)
        rises = law["beta"] * law["B"] * tokens ** -law["beta"]
        low, high = (middle, high) if falls > rises else (low, middle)
    return float(np.exp(low))


@check(
    hints=("A FLOP count has three factors for each parameter and token pair: 6, N and D. Solve for the tokens.",),
    guards="the budget, which the starter spends exactly",
)
def check_the_plan_spends_the_compute(student: Student, rng: np.random.Generator) -> None:
    """Parameters times tokens times six are the compute, for every law and budget."""
    laws, budgets = [PRINTED, REPLICATED, *drawn(rng, 4)], [1e18, 5.76e23, 1e27]
    found = student.call("harness.plans", laws, budgets).value
    for i, (parameters, tokens, _) in enumerate(found):
        compute = budgets[i % 3]
        what = f"6 N D of the plan for {compute:.3g} FLOPs"
        assert_close(6 * parameters * tokens, compute, what, rtol=1e-9, mistakes={"that of N D": 6 * compute})


@check(
    hints=(
        "Move one percent of the parameters into tokens, at the same compute: does the loss rise or fall?",
        "Put D = C/6N into the law and set its derivative by N to zero: then alpha A/N^alpha = beta B/D^beta.",
    )
)
def check_no_other_split_is_better(student: Student, rng: np.random.Generator) -> None:
    """No other split of the same compute has a lower loss, for any law and budget."""
    laws, budgets = [PRINTED, REPLICATED, *drawn(rng, 6)], [1e18, 1e21, 5.76e23, 1e27]
    found = student.call("harness.plans", laws, budgets).value
    for i, (parameters, tokens, ratio) in enumerate(found):
        law, compute = laws[i // 4], budgets[i % 4]
        best, a = best_parameters(law, compute), law["alpha"] / (law["alpha"] + law["beta"])
        mistakes = {"the plan with 20 tokens a parameter": (compute / 120) ** 0.5}
        mistakes["the plan with the exponents exchanged"] = compute / 6 / best * (best / (compute / 6) ** (1 - a)) ** 2
        mistakes["where both terms are equal"] = best * (law["beta"] / law["alpha"]) ** (
            1 / (law["alpha"] + law["beta"])
        )
        what = f"parameters of the plan for {compute:.3g} FLOPs, alpha {law['alpha']:.4g}, beta {law['beta']:.4g}"
        assert_close(parameters, best, what, rtol=1e-6, mistakes=mistakes)
        assert_close(ratio, tokens / parameters, f"tokens_per_parameter for {compute:.3g} FLOPs", rtol=1e-9)


@check(
    hints=("Use the law's constants as they are given, to their last digit: 0.2849 is not 0.28.",),
    guards="the digits of a law",
)
def check_the_three_published_ratios(student: Student) -> None:
    """Chinchilla's budget gives 92.6 tokens a parameter as printed, 59.1 unrounded and 18.4 by the replication."""
    for law, ratio, what in (
        (PRINTED, 92.6, "printed"),
        (UNROUNDED, 59.1, "unrounded"),
        (REPLICATED, 18.4, "replicated"),
    ):
        found = student.call("tokens_per_parameter", law, 5.76e23).value
        assert_close(found, ratio, f"tokens_per_parameter for 5.76e23 FLOPs, {what} constants,", atol=0.06)


@check(
    hints=("A power law is a line between log C and log N: a is its slope, and k follows from where the means lie.",)
)
def check_a_sweep_is_a_line_in_logarithms(student: Student, rng: np.random.Generator) -> None:
    """A power law is fitted in logarithms, through any sweep, noisy or not."""
    for a, noise in ((0.5, 0.0), (0.73, 0.0), (0.46, 0.1), (0.55, 0.3)):
        compute = np.exp(rng.uniform(40, 60, size=9))
        parameters = 0.1 * compute**a * np.exp(noise * rng.normal(size=9))
        slope, level = np.polyfit(np.log(compute), np.log(parameters), 1)
        k, exponent = student.call(
            "frontier", [(float(c), float(n)) for c, n in zip(compute, parameters, strict=True)]
        ).value
        assert_close(exponent, float(slope), f"the exponent of a sweep with {noise:.0%} of noise", rtol=1e-8)
        assert_close(k, float(np.exp(level)), f"the factor of a sweep with {noise:.0%} of noise", rtol=1e-6)


@check(hints=("Continue the line to the new budget. What do so many parameters leave of the compute for tokens?",))
def check_the_projection_table_comes_out(student: Student) -> None:
    """From the three small rows of the Chinchilla paper's table the other six follow, up to ten trillion parameters."""
    sweep = [(compute, parameters) for compute, parameters, *_ in TABLE_3[:3]]
    for compute, parameters, tokens, rtol in TABLE_3:
        plan = student.call("projected", sweep, compute).value
        what = f"of the plan for {compute:.3g} FLOPs, continued from 10 billion parameters"
        assert_close(plan["parameters"], parameters, f"parameters {what}", rtol=0.02)
        mistakes = {"20 for each parameter": 20 * plan["parameters"]}
        assert_close(plan["tokens"], tokens, f"tokens {what}", rtol=rtol, mistakes=mistakes)


@check(
    hints=(
        "The size fixes one term, the law another. What is left of the target for the tokens' term?",
        "Where nothing is left, no number of tokens will do: raise the ValueError.",
    )
)
def check_smaller_models_have_their_price(student: Student, rng: np.random.Generator) -> None:
    """The tokens that a given size needs for a loss are exact, and a loss that it never reaches is refused."""
    for law in [REPLICATED, *drawn(rng, 4)]:
        for parameters, tokens in ((1e9, 2e10), (8e9, 15e12), (1e11, 1e12)):
            target = float(losses(law, parameters, tokens))
            assert_close(student.call("loss", law, parameters, tokens).value, target, "loss", rtol=1e-9)
            found = student.call("tokens_to_reach", law, parameters, target).value
            what = f"tokens_to_reach {target:.4f} with {parameters:.3g} parameters"
            assert_close(found, tokens, what, rtol=1e-6, mistakes={"20 for each parameter": 20 * parameters})
            floor = float(losses(law, parameters, np.inf))
            for unreachable in (floor - 1e-6, law["E"]):
                ended = student.call("harness.refusal", law, parameters, unreachable).value
                assert ended == "refused", (
                    f"tokens_to_reach {unreachable:.4f} {ended}; no size of data reaches {floor:.4f}."
                )

"""Hidden checks of fit_in_log_space, in teaching order: the objective, its gradient, the starts, then known laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.judging import Student, assert_close, check

DELTA, TRUE_EXPONENT = 1e-3, 0.3658 / (0.3478 + 0.3658)
THETAS = [
    (6.2, 7.6, 0.6, 0.35, 0.37),
    (5.0, 15.0, 0.0, 0.5, 1.0),
    (6.18, 7.64, 0.597, 0.3478, 0.3658),
    (0.0, 0.0, 1.0, 0.1, 0.1),
]


def drawn(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return runs of the replication's law with noise, one of them far off."""
    parameters, tokens = np.exp(rng.uniform(18, 23, size=n)), np.exp(rng.uniform(20, 26, size=n))
    loss = (1.8172 + 482.01 / parameters**0.3478 + 2085.43 / tokens**0.3658) * np.exp(0.004 * rng.normal(size=n))
    loss[0] *= 1.3
    return {"parameters": parameters, "tokens": tokens, "loss": loss}


def residuals(theta: Any, runs: dict[str, Any], log: bool = True) -> Any:
    """Return residuals of the law, in the logarithm or in the loss itself."""
    a, b, e, alpha, beta = theta
    terms = (a - alpha * np.log(runs["parameters"]), b - beta * np.log(runs["tokens"]), np.full(len(runs["loss"]), e))
    predicted = np.logaddexp(np.logaddexp(terms[0], terms[1]), terms[2])
    return predicted - np.log(runs["loss"]) if log else np.exp(predicted) - runs["loss"]


def huber(r: Any) -> Any:
    """Return Huber's loss of residuals."""
    return np.where(np.abs(r) <= DELTA, r**2 / 2, DELTA * (np.abs(r) - DELTA / 2))


@check(
    hints=(
        "Loss 8.0 predicted as 8.1, loss 2.0 predicted as 2.1: which of the two is the worse prediction?",
        "Take the residual of the logarithms, and Huber's loss of it: the square up to delta, a straight line beyond.",
    )
)
def check_residuals_are_relative_and_robust(student: Student, rng: np.random.Generator) -> None:
    """Residuals are those of the logarithm, and large ones count by their size; a common factor is left open here."""
    for n in (7, 40):
        runs = drawn(rng, n)
        values = [student.call("objective", np.array(theta), runs).value[0] for theta in THETAS]
        whole = {name: [float(f(residuals(theta, runs, log)).sum()) for theta in THETAS] for name, f, log in (
            ("Huber's loss of log-residuals", huber, True), ("squares of residuals of the loss", np.square, False),
            ("squares of log-residuals", np.square, True), ("Huber's loss of residuals of the loss", huber, False),
            ("sizes of log-residuals", np.abs, True))}  # fmt: skip
        ratios = {name: np.array(sums) / sums[0] for name, sums in whole.items()}
        expected = ratios.pop("Huber's loss of log-residuals")
        what = f"objectives of four laws over that of the first, {n} runs,"
        assert_close(np.array(values) / values[0], expected, what, rtol=1e-9, mistakes=ratios)


@check(
    hints=(
        "An optimizer believes the gradient. When the objective changed, did its derivatives change with it?",
        "The derivative of Huber's loss is the clipped residual. It is multiplied by each term's share of the loss.",
    )
)
def check_the_gradient_belongs_to_the_objective(student: Student, rng: np.random.Generator) -> None:
    """The derivatives are those of the number that is returned, by central differences."""
    runs, h = drawn(rng, 30), 1e-6
    for theta in THETAS:
        gradient = np.asarray(student.call("objective", np.array(theta), runs).value[1])
        for i, unit in enumerate(np.eye(5) * h):
            ends = [student.call("objective", theta + sign * unit, runs).value[0] for sign in (1, -1)]
            slope, scale = (ends[0] - ends[1]) / (2 * h), float(np.abs(gradient).max()) + 1e-300
            what = f"derivative by theta[{i}] at {theta}, in units of the largest one,"
            assert_close(float(gradient[i]) / scale, slope / scale, what, rtol=0, atol=1e-3)


@check(
    hints=(
        "Fit from each start alone and look at the exponents. How would you know which one to believe?",
        "Minimize from every start and keep the end with the lowest objective, all its constants together.",
    )
)
def check_every_start_is_tried(student: Student, rng: np.random.Generator) -> None:
    """The fit is the lowest end of all starts, in whatever order they come."""
    runs, starts = drawn(rng, 60), [np.array(theta) for theta in THETAS]
    alone = [student.call("fit", runs, [start]).value for start in starts]
    best = min(alone, key=lambda law: float(law["objective"]))
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (1, 3, 2, 0)):
        found = student.call("fit", runs, [starts[i] for i in order]).value
        for key in ("objective", "alpha", "beta", "E", "A", "B"):
            ends = {"the end of the first start alone": alone[order[0]][key]}
            ends |= {"the end of the last start alone": alone[order[-1]][key]}
            mistakes = {name: end for name, end in ends.items() if abs(end / best[key] - 1) > 1e-6}
            what = f"{key} of the fit from four starts, order {order}"
            assert_close(found[key], best[key], what, rtol=1e-9, mistakes=mistakes)
        theta = (np.log(found["A"]), np.log(found["B"]), np.log(found["E"]), found["alpha"], found["beta"])
        again = student.call("objective", np.array(theta), runs).value[0]
        assert_close(
            found["objective"], float(again), "the objective that the fit reports, of its constants", rtol=1e-6
        )


@check(
    hints=(
        "The optimizer returns three things. What does the third one say, and of which start?",
        "Return the flag of the end that you keep, not of the last start, nor whether any or all of them converged.",
    )
)
def check_a_fit_that_did_not_converge_says_so(student: Student) -> None:
    """`converged` is the optimizer's word on the end that was kept, and no other."""
    runs = drawn(np.random.default_rng(8), 60)
    lost = np.array([-900.0, -900.0, 3.0, 0.5, 0.5])  # only E is left, so this ends soon, and badly
    near, ends = np.array(THETAS[2]), student.call("fit", runs, [np.array(THETAS[2])], 2000).value
    there = np.array([np.log(ends["A"]), np.log(ends["B"]), np.log(ends["E"]), ends["alpha"], ends["beta"]])
    for starts, iterations, expected, what in (
        ([near, lost], 2000, True, "ample iterations, the good start first"),
        ([lost, near], 2000, True, "ample iterations, the bad start first"),
        ([near, np.array(THETAS[1])], 1, False, "a single iteration"),
        ([there, np.array(THETAS[1])], 1, True, "a single iteration, from where an earlier fit has ended"),
        ([near, lost], 3, False, "three iterations, the good start first, a bad one that ends at once"),
        ([lost, near], 3, False, "three iterations, a bad start that ends at once first"),
    ):
        law = student.call("fit", runs, starts, iterations).value
        flag = bool(law["converged"])
        assert flag is expected, f"converged is {flag}, expected {expected}, with {what}."


@check(
    hints=(
        "The optimizer stops where the gradient is below 1e-5. How large is yours near the valley, over 240 runs?",
        "A mean is a sum over 240, and so is its gradient: the optimizer believes itself at the end, far from it.",
    )
)
def check_the_known_exponent_is_recovered(student: Student) -> None:
    """With three seeds of noise, and with runs that went wrong, the exponent is within 0.02 of the true one."""
    for seed, n_outliers in ((0, 0), (1, 0), (2, 0), (1, 5)):
        found, e, far, _ = student.call("harness.exponent", seed, n_outliers, timeout_s=30.0).value
        what = f"seed {seed}, {n_outliers} runs gone wrong"
        assert abs(found - TRUE_EXPONENT) < 0.02, f"The exponent is {found:.4f} with {what}, expected 0.5126 ± 0.02."
        assert abs(e - 1.8172) < 0.05, f"E is {e:.4f} with {what}, expected 1.8172 ± 0.05."
        loss = 1.8172 + 482.01 / 6.7e10**0.3478 + 2085.43 / 1.4e12**0.3658
        assert abs(far - loss) < 0.02, f"For 67 B parameters, 1.4 T tokens the law says {far:.4f}, expected {loss:.4f}."
        if not n_outliers:
            short = student.call("harness.exponent", seed, 0, 240.0, timeout_s=30.0).value[0]
            told = f"Divided by 240 your objective gives {short:.4f} with {what}: was the optimizer changed?"
            assert short < found - 0.04, told

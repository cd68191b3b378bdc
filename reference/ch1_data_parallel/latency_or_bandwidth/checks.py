"""Hidden checks of latency_or_bandwidth, in teaching order: each algorithm, the choice, then measurements."""

from __future__ import annotations

from itertools import product

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check

LINK = {"alpha_s": 10e-6, "beta_s_per_byte": 1e-10}
RING, DOUBLING, HALVING = "ring", "recursive doubling", "halving and doubling"


def simulated_s(algorithm: str, n_bytes: float, p: int, alpha_s: float = 10e-6, beta: float = 1e-10) -> float:
    """Return the time of an algorithm, message by message, as the README tells it."""
    messages: list[float] = []  # the bytes of the messages that follow each other
    if algorithm == RING:
        messages = [n_bytes / p] * (2 * (p - 1))
    else:
        r = int(np.log2(p))
        pieces = [n_bytes / 2 ** (step + 1) for step in range(r)]
        messages = [n_bytes] * r if algorithm == DOUBLING else pieces + pieces[::-1]
        if 2**r < p:
            messages = [n_bytes, *messages, n_bytes]
    return float(sum(alpha_s + size * beta for size in messages))


def assert_time(student: Student, algorithm: str, n_bytes: int, p: int) -> None:
    """Compare a predicted time."""
    predicted = student.call("all_reduce_s", algorithm, n_bytes, p, LINK).value
    steps, starts = 10e-6 * (p - 1), round(simulated_s(algorithm, 0, p, alpha_s=1.0))
    mistakes = {
        "twice the vector over the bandwidth": 2e-10 * n_bytes,
        "the time for the bytes alone, without the steps": simulated_s(algorithm, n_bytes, p, alpha_s=0.0),
        "the time for the steps alone": simulated_s(algorithm, n_bytes, p, beta=0.0),
        "one start for all messages together": 10e-6 + simulated_s(algorithm, n_bytes, p, alpha_s=0.0),
        "the steps of one phase only": simulated_s(algorithm, n_bytes, p) - steps,
        "the time with whole vectors in every step": starts * (10e-6 + 1e-10 * n_bytes),
    }
    what = f"all_reduce_s of {algorithm} for {n_bytes:,} bytes on {p} ranks"
    assert_close(predicted, simulated_s(algorithm, n_bytes, p), what, rtol=1e-9, unit="s", mistakes=mistakes)


@check(
    hints=(
        "A ring of 8 bytes on 64 ranks: how many messages does a rank send one after another? What does each cost?",
        "Two phases of p - 1 steps. Every step costs one start and one chunk, the p-th part of the vector.",
    )
)
def check_the_ring_pays_for_every_step(student: Student) -> None:
    """A ring pays for each of its steps and for the bytes of each, on any number of ranks."""
    for p, n_bytes in product((2, 3, 5, 8, 64), (8, 4_000, 100_000_000)):
        assert_time(student, RING, n_bytes, p)


@check(
    hints=(
        "Write the messages of one rank down, one a line: how many are there on 8 ranks, and how large is each?",
        "Doubling sends the whole vector in each of lg p steps. Halving sends n/2, n/4, ... and the same backwards.",
    )
)
def check_powers_of_two_pair_up(student: Student) -> None:
    """On a power of two, each of the pairwise algorithms pays for its own steps and bytes."""
    for algorithm, p, n_bytes in product((DOUBLING, HALVING), (2, 4, 16), (8, 100_000_000)):
        assert_time(student, algorithm, n_bytes, p)


@check(
    hints=(
        "Six ranks: four pair up. What do the other two send first, and what do they wait for at the end?",
        "One message of the whole vector before and one after, on top of the algorithm on the power of two below p.",
    )
)
def check_other_numbers_pay_two_vectors_more(student: Student) -> None:
    """On other numbers of ranks two messages of the whole vector come on top of the power of two below."""
    for algorithm, p, n_bytes in product((DOUBLING, HALVING), (3, 6, 7, 100), (8, 100_000_000)):
        assert_time(student, algorithm, n_bytes, p)


@check(hints=("Alone, a rank has the sum already. How many messages does your formula send on one rank?",))
def check_one_rank_takes_no_time(student: Student) -> None:
    """On one rank every algorithm takes no time at all."""
    for algorithm in (RING, DOUBLING, HALVING):
        predicted = student.call("all_reduce_s", algorithm, 4_000, 1, LINK).value
        assert_close(predicted, 0.0, f"all_reduce_s of {algorithm} on 1 rank", unit="s")


@check(
    hints=(
        "Which algorithm takes the fewest steps, and which sends the fewest bytes? Each has its own sizes.",
        "Compare the predicted times for exactly this size, this number of ranks and this link.",
    )
)
def check_the_fastest_changes_with_the_size(student: Student) -> None:
    """The choice is right at every size, also one byte before and after two algorithms are equally fast."""
    cases = [(8, 8, RING, DOUBLING), (8, 10**9, DOUBLING, HALVING)]
    cases += [(6, 8, RING, DOUBLING), (6, 10**9, DOUBLING, RING)]
    for p, other in ((8, HALVING), (6, RING)):
        gap_s = simulated_s(other, 0, p) - simulated_s(DOUBLING, 0, p)
        slope = simulated_s(DOUBLING, 1, p, alpha_s=0.0) - simulated_s(other, 1, p, alpha_s=0.0)
        equal = round(gap_s / slope)
        cases += [(p, equal - 1, other, DOUBLING), (p, equal + 1, DOUBLING, other)]
    for p, n_bytes, tempting, best in cases:
        chosen = student.call("fastest", n_bytes, p, LINK).value
        later_s = simulated_s(tempting, n_bytes, p) - simulated_s(best, n_bytes, p)
        mistakes = {f"an algorithm that is later by {later_s:.1e} s": tempting}
        assert_equal(chosen, best, f"fastest for {n_bytes:,} bytes on {p} ranks", mistakes=mistakes)


@check(
    hints=(
        "Two ranks all-gather: each has half of the vector already. How much must come in over its link?",
        "A rank never sends itself its own p-th part. All-reduce is a reduce-scatter and an all-gather.",
    )
)
def check_bus_bandwidth_counts_what_the_link_carried(student: Student) -> None:
    """Bus bandwidth tells what the link of each rank carried, for six collectives."""
    parts = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}
    n_bytes, seconds = 6_000_000, 0.25
    for p, op in product((2, 3, 8), (*parts, "broadcast", "reduce")):
        carried = parts[op] * (n_bytes - n_bytes / p) if op in parts else float(n_bytes)
        per_s = n_bytes / seconds
        mistakes = {"the algorithm bandwidth, the vector over the time": per_s, "in bits": 8 * carried / seconds}
        mistakes |= {"the traffic of an endless ring": 2 * per_s, "(p - 1) times the vector": (p - 1) * per_s}
        what = f"bus_bandwidth of {op} of {n_bytes:,} bytes in {seconds} s on {p} ranks"
        actual = student.call("bus_bandwidth", op, n_bytes, seconds, p).value
        assert_close(actual, carried / seconds, what, rtol=1e-9, unit="B/s", mistakes=mistakes)


@check(
    hints=(
        "2 % of the longest time is more than all short times together. Which points does your fit look at?",
        "Make every error relative: divide each equation by its measured time before you take squares.",
        "t = 2(p - 1) alpha + 2(p - 1)/p n beta: the two factors depend on the number of ranks.",
    )
)
def check_both_numbers_are_fitted(student: Student, rng: np.random.Generator) -> None:
    """From noisy times between 8 bytes and 1 GB, alpha and beta are found within 10 %."""
    for p, alpha_s, beta in ((8, 10e-6, 1e-10), (3, 2e-6, 4e-11), (64, 5e-5, 8e-10)):
        sizes = np.unique(np.geomspace(8, 1e9, 41).round().astype(int))
        times = np.array([simulated_s(RING, size, p, alpha_s, beta) for size in sizes])
        times *= 1 + 0.02 * rng.uniform(-1, 1, size=len(sizes))
        link = student.call("fit", list(zip(sizes.tolist(), times.tolist(), strict=True)), p).value
        for key, value in (("alpha_s", alpha_s), ("beta_s_per_byte", beta)):
            assert_close(link[key], value, f"{key} fitted to ring all-reduces on {p} ranks", rtol=0.1)

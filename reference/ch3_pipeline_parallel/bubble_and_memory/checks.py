"""Hidden checks of bubble_and_memory, in teaching order: time, then what it is a share of, then memory."""

from __future__ import annotations

from itertools import product

from grader import schedules
from grader.judging import Student, assert_close, assert_equal, check

F, B, W = 1.0, 1.25, 0.75  # seconds; numbers that no two sums confuse
TIMES = {"forward_s": F, "input_s": B, "weight_s": W}


def order(schedule: str, ranks: int, micro_batches: int) -> list[list[str]]:
    """Return what each rank does in GPipe or 1F1B."""
    rows = []
    for rank in range(ranks):
        ahead = micro_batches if schedule == "gpipe" else min(micro_batches, ranks - rank)
        forwards, backwards = ([f"{rank}{kind}{i}" for i in range(micro_batches)] for kind in "FB")
        turns = [action for pair in zip(backwards, forwards[ahead:], strict=False) for action in pair]
        rows.append([*forwards[:ahead], *turns, *backwards[micro_batches - ahead :]])
    return rows


def only(chunks: int) -> list[int]:
    """Return the argument `chunks`, left out where it is 1, which is the default."""
    return [chunks] if chunks > 1 else []


def assert_bubble(student: Student, schedule: str, ranks: int, chunks: int, expected: float, **known: float) -> None:
    """Compare a bubble in seconds."""
    mistakes = {name.replace("_", " "): value for name, value in known.items() if ranks > 1}
    what = f"bubble_s of {schedule}, p = {ranks}, v = {chunks} (F {F}, B {B}, W {W} s)"
    found = student.call("bubble_s", schedule, ranks, TIMES, *only(chunks)).value
    assert_close(found, expected, what, rtol=1e-9, mistakes=mistakes, unit="s")


def assert_peak(student: Student, schedule: str, rank: int, ranks: int, m: int, expected: int, chunks: int = 1) -> None:
    """Compare how many micro-batches or chunks a rank holds."""
    what = f"peak_in_flight of {schedule} on rank {rank}, p = {ranks}, m = {m}, v = {chunks}"
    known = {"everything, m times v": m * chunks, "the number of ranks, which is the first rank's peak": ranks}
    found = student.call("peak_in_flight", schedule, rank, ranks, m, *only(chunks)).value
    assert_equal(found, expected, what, mistakes=known)


@check(
    hints=(
        "Follow the last rank: when does it begin, for how long does it work, and what must still happen after that?",
        "The pipeline drains as it filled: after the last rank's last backward come those of all ranks before it.",
    )
)
def check_1f1b_idles_as_long_as_gpipe(student: Student) -> None:
    """GPipe and 1F1B leave every rank idle for the same time."""
    for ranks, schedule in product((1, 2, 3, 4, 8), ("gpipe", "1f1b")):
        done = schedules.run(order(schedule, ranks, 8), {"F": F, "B": B + W})  # the oracle: action by action
        p, expected = ranks - 1, done.end - 8 * (F + B + W)
        try:
            assert_bubble(student, schedule, ranks, 1, expected, only_the_filling=p * F, only_the_draining=p * (B + W))
        except AssertionError as failure:
            rows = order(schedule, 3, 4)
            grid = schedules.draw(schedules.by_time(rows, schedules.run(rows)))
            raise AssertionError(f"{failure}\n{schedule} on 3 ranks, each action as early as can be:\n{grid}") from None


@check(
    hints=(
        "Chunks of 1/v stage fill and drain the pipeline in 1/v of the time. W waits for nobody and can fill holes.",
        "Here B is without W. A table that calls both together B writes F + B - 2W for what is F + B - W here.",
    )
)
def check_what_makes_the_bubble_smaller(student: Student) -> None:
    """Interleaving v chunks leaves (p-1)(F+B+W)/v; filling holes with W (p-1)(F+B-W) and (p-1)(F+B-2W)."""
    for ranks, chunks in ((2, 2), (4, 3), (8, 5), (1, 2), (4, 1)):
        whole = (ranks - 1) * (F + B + W)
        assert_bubble(student, "interleaved", ranks, chunks, whole / chunks, the_bubble_of_1f1b=whole)
    for ranks, (schedule, holes) in product((2, 4, 8), (("zb-h1", 1), ("zb-h2", 2))):
        expected, mixed = (ranks - 1) * (F + B - holes * W), (ranks - 1) * (F + B + W - holes * W)
        assert_bubble(student, schedule, ranks, 1, expected, what_comes_out_if_B_includes_W=mixed)


@check(hints=("Ideal is the work alone, total is work and bubble together. Which of the two shares can exceed 1?",))
def check_each_share_has_its_own_denominator(student: Student) -> None:
    """The bubble is (p-1)/m of the ideal step and (p-1)/(m+p-1) of the whole one."""
    for (ranks, m), chunks in product(((4, 8), (8, 8), (3, 5), (8, 2), (5, 1)), (1, 2)):
        bubble = (ranks - 1) / chunks  # in units of F + B + W
        shares = {"ideal": bubble / m, "total": bubble / (m + bubble)}
        for name, other in (("ideal", "total"), ("total", "ideal")):
            what = f"bubble_over_{name} of interleaved, p = {ranks}, m = {m}, v = {chunks}"
            found = student.call(f"bubble_over_{name}", "interleaved", ranks, m, TIMES, *only(chunks)).value
            assert_close(found, shares[name], what, mistakes={f"the share of the {other} step": shares[other]})


@check(hints=("Of which step is the target a share? And which schedule needs a multiple of the ranks?",))
def check_the_fewest_micro_batches_for_a_target(student: Student) -> None:
    """The bubble is at most the target with that many micro-batches, and above it with fewer."""
    cases = [(0.201, "1f1b", 5, 1, 16), (0.199, "1f1b", 5, 1, 17), (0.051, "gpipe", 4, 1, 56), (0.5, "gpipe", 1, 1, 1)]
    cases += [(0.11, "interleaved", 8, v, m) for v, m in ((4, 16), (1, 64))] + [(0.05, "zb-h1", 4, 1, 29)]
    for target, schedule, ranks, chunks, fewest in cases:
        found = student.call("micro_batches_for", target, schedule, ranks, TIMES, *only(chunks)).value
        assert_equal(found, fewest, f"micro_batches_for({target}, {schedule!r}, p = {ranks}, v = {chunks})")


@check(
    hints=(
        "The last rank goes backward right after its forward. How many micro-batches does it hold?",
        "When its first backward comes, a rank has forwarded one for itself and each rank behind it, but at most m.",
    )
)
def check_1f1b_holds_fewer_activations(student: Student) -> None:
    """At its peak a rank holds m micro-batches with GPipe and min(m, p - rank) with 1F1B."""
    for ranks, m, schedule in product((1, 2, 4, 5), (1, 2, 8), ("gpipe", "1f1b")):
        for rank, row in enumerate(order(schedule, ranks, m)):
            assert_peak(student, schedule, rank, ranks, m, max(schedules.in_flight(row)))


@check(
    hints=(
        "When an interleaved rank's first backward comes, how many forwards has it done, over all of its chunks?",
        "p for each chunk but its last, two for each rank behind it, one for itself; never more than m v.",
    )
)
def check_what_the_other_schedules_hold(student: Student) -> None:
    """Interleaved ranks run ahead further than those of 1F1B and hold more; zero-bubble ones hold p or 2p-1."""
    for ranks, rank, m, chunks, expected in ((4, 0, 8, 2, 11), (4, 3, 8, 2, 5), (4, 1, 4, 3, 12), (8, 2, 16, 4, 35)):
        assert_peak(student, "interleaved", rank, ranks, m, expected, chunks)
    for schedule, m, expected in (("zb-h1", 9, 4), ("zb-h2", 9, 7), ("zb-h2", 5, 5), ("zb-h1", 3, 3)):
        assert_peak(student, schedule, 0, 4, m, expected)


@check(hints=("Each line of the table in the README is one case: which terms does t divide, and which stay whole?",))
def check_bytes_of_a_layer(student: Student) -> None:
    """A layer keeps the bytes of Korthikanti's table, whichever way it is split or recomputed."""
    for s, b, h, a, t in ((2048, 1, 12288, 96, 8), (1024, 4, 2304, 24, 1), (2048, 2, 20480, 128, 3)):
        sbh, scores, shape = s * b * h, 5 * a * s / h, {"sequence": s, "micro_batch": b, "hidden": h, "heads": a}
        table = {(False, "none"): 10 + 24 / t + scores / t, (True, "none"): (34 + scores) / t, (False, "full"): 2}
        table |= {(False, "selective"): 10 + 24 / t, (True, "selective"): 34 / t, (True, "full"): 2}
        for (parallel, recompute), factor in table.items():
            what = f"layer_bytes of {shape}, tensor_parallel {t}, sequence_parallel {parallel}, recompute {recompute!r}"
            found = student.call("layer_bytes", shape, t, parallel, recompute).value
            assert_close(found, float(sbh * factor), what, unit="bytes")


@check(hints=("A rank has layers / ranks layers, and a chunk a v-th of those. How many of them are held?",))
def check_the_first_stage_holds_most(student: Student) -> None:
    """A rank's activations are those of its layers, as often as micro-batches are in flight."""
    cases = [("1f1b", 0, 1, 12.0), ("1f1b", 3, 1, 3.0), ("gpipe", 1, 1, 24.0), ("interleaved", 0, 1, 21.0)]
    for schedule, rank, chunks, layers in [*cases, ("interleaved", 0, 2, 12 * (1 + 3 / 8))]:
        found = student.call("stage_bytes", schedule, rank, 4, 8, 12, 10.0, *only(chunks)).value
        what = f"stage_bytes of {schedule} on rank {rank} of 4: 12 layers of 10 bytes, m = 8, v = {chunks}"
        assert_close(found, 10.0 * layers, what, unit="bytes")

"""Hidden checks of choose_strategy, in teaching order: plans, memory, time, then the choice and what binds it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from grader.judging import Student, assert_close, assert_equal, check

Sizes = dict[str, Any]
A100 = {"gpus_per_node": 8, "memory_bytes": 80e9, "flops_per_s": 140e12, "layer_s": 1e-4}
A100 |= {"inside_bytes_per_s": 300e9, "between_bytes_per_s": 25e9}
KEYS = ("data", "tensor", "pipeline", "zero", "micro_batch", "recompute")
# Narayanan et al. 2021, table 1: heads, hidden size, layers, GPUs, batch.
SC21 = (
    (24, 2304, 24, 32, 512), (32, 3072, 30, 64, 512), (32, 4096, 36, 128, 512), (48, 6144, 40, 256, 1024),
    (64, 8192, 48, 512, 1536), (80, 10240, 60, 1024, 1792), (96, 12288, 80, 1536, 2304), (128, 16384, 96, 1920, 2160),
    (128, 20480, 105, 2520, 2520), (160, 25600, 128, 3072, 3072),
)  # fmt: skip
LADDER = (  # each of these plans has one term more: recomputation, stages, tensor, data, ZeRO, then two nodes of 8
    (1, 1, 1, 0, 1, "none"), (1, 1, 1, 0, 1, "selective"), (1, 1, 1, 0, 1, "full"), (1, 1, 2, 0, 1, "none"),
    (1, 2, 1, 0, 1, "none"), (2, 1, 1, 0, 1, "none"), (2, 1, 1, 1, 1, "none"), (2, 1, 1, 2, 1, "none"),
    (2, 1, 1, 3, 1, "none"), (8, 1, 2, 0, 1, "none"), (8, 2, 1, 0, 1, "none"), (1, 16, 1, 0, 1, "none"),
)  # fmt: skip


def case(heads: int, hidden: int, layers: int, gpus: int, batch: int, zero: Any = (0,), **other: Any) -> list[Sizes]:
    """Return a job and its cluster, of A100 but for what `other` says."""
    job = {"layers": layers, "hidden": hidden, "heads": heads, "vocabulary": 51200, "sequence": 2048, "batch": batch}
    return [job | {"zero_stages": list(zero)}, A100 | {"gpus": gpus} | other]


def every_plan(job: Sizes, cluster: Sizes) -> list[tuple[Any, ...]]:
    """Try all degrees up to the numbers that they have to divide."""
    degrees = product(range(1, job["heads"] + 1), range(1, job["layers"] + 1))
    splits = [(t, p) for t, p in degrees if job["heads"] % t == job["layers"] % p == cluster["gpus"] % (t * p) == 0]
    replicas = [(cluster["gpus"] // (t * p), t, p) for t, p in splits]
    found = [(d, t, p, b) for d, t, p in replicas for b in range(1, job["batch"] + 1) if job["batch"] % (d * b) == 0]
    rest = list(product(job["zero_stages"], ("none", "selective", "full")))
    return [(d, t, p, zero, b, again) for (d, t, p, b), (zero, again) in product(found, rest)]


def costs(job: Sizes, cluster: Sizes, plan: tuple[Any, ...]) -> tuple[float, float]:
    """Return memory in bytes and time in seconds by the contract."""
    (d, t, p, zero, b, again), layers, h, s = plan, job["layers"], job["hidden"], job["sequence"]
    m, bsh, a, v = job["batch"] // (d * b), b * s * h, job["heads"], job["vocabulary"]
    held = (12 * layers * h * h + v * h) / (t * p)
    state = held * sum(size / (d if zero >= stage else 1) for size, stage in ((2, 3), (2, 2), (12, 1)))
    kept = {"none": bsh * (34 + 5 * a * s / h) / t, "selective": 34 * bsh / t, "full": 2 * bsh}
    memory = state + kept[again] * min(m, p) * (layers // p) + (again == "full") * kept["none"]
    inside, between, node = cluster["inside_bytes_per_s"], cluster["between_bytes_per_s"], cluster["gpus_per_node"]
    beta = {span: 1 / (inside if span <= node else between) for span in (t, t * d, t * d * p)}
    weights, attention, logits = 24 * bsh * h, 4 * bsh * s, 2 * bsh * v
    flops = layers // p * (3 * (weights + attention) + (again != "none") * attention + (again == "full") * weights)
    stage_s = (flops + 3 * logits) / t / cluster["flops_per_s"] + layers // p * cluster["layer_s"]
    stage_s += layers // p * 16 * bsh * (t - 1) / t * beta[t] + (p > 1) * 4 * bsh * beta[t * d * p]
    return memory, (m + p - 1) * stage_s + (2, 2, 1 + m, 3 * m)[zero] * 2 * held * (d - 1) / d * beta[t * d]


def best_s(job: Sizes, cluster: Sizes) -> float:
    """Return the shortest step that fits, infinite if none does."""
    both = [costs(job, cluster, plan) for plan in every_plan(job, cluster)]
    return min((seconds for memory, seconds in both if memory <= cluster["memory_bytes"]), default=float("inf"))


def drawn(rng: np.random.Generator, n: int) -> list[list[Sizes]]:
    """Return small cases of many kinds: slow links, little memory, GPUs that are no power of two."""
    cases = []
    for _ in range(n):
        heads, layers, gpus = (int(rng.choice(c)) for c in ((8, 12, 15), (8, 12, 18), (4, 12, 24, 48)))
        exponents = {"inside_bytes_per_s": (9, 12), "between_bytes_per_s": (9, 12), "memory_bytes": (10, 11)}
        sizes = {name: float(10 ** rng.uniform(*ends)) for name, ends in exponents.items()}
        sizes["gpus_per_node"] = int(rng.choice([2, 4, 6]))
        cases.append(case(heads, heads * 128, layers, gpus, gpus * int(rng.choice([2, 6])), range(4), **sizes))
    return cases


def assert_costs(student: Student, rng: np.random.Generator, which: int, **other: Any) -> None:
    """Compare the memory (0) or the time (1), of LADDER and then of drawn plans, on clusters with `other` numbers."""
    cases: list[Any] = [(case(16, 2048, 24, row[0] * row[1] * row[2], 16), [row]) for row in LADDER]
    for job, plain in [*drawn(rng, 6), case(*SC21[8], zero=range(4))]:
        every = every_plan(job, plain)
        cases.append(([job, plain], [every[i] for i in rng.choice(len(every), size=40)]))
    for (job, plain), rows in cases:
        cluster, picked = plain | other, [dict(zip(KEYS, row, strict=True)) for row in rows]
        for plan, answer in zip(picked, student.call("harness.measured", job, cluster, picked).value, strict=True):
            expected, what = costs(job, cluster, tuple(plan.values()))[which], ("memory_bytes", "step_s")[which]
            assert_close(answer[which], expected, f"{what} of {plan}", rtol=1e-9, unit=("bytes", "s")[which])


@check(hints=("List what has to divide what, and try every divisor; every micro-batch and kind of recomputation too.",))
def check_plans_are_all_that_divides(student: Student, rng: np.random.Generator) -> None:
    """The plans are exactly the splits that divide GPUs, heads, layers and batch, each with every way to fill it."""
    for job, cluster in [*drawn(rng, 4), case(*SC21[8]), case(3, 192, 5, 7, 14), case(8, 512, 6, 12, 16)]:
        found = [tuple(plan[key] for key in KEYS) for plan in student.call("plans", job, cluster).value]
        expected, heads = every_plan(job, cluster), job["heads"]
        what = f"plans for {cluster['gpus']} GPUs, {heads} heads, {job['layers']} layers, batch {job['batch']}"
        stray, missing = set(found) - set(expected), set(expected) - set(found)
        assert not stray, f"{what} has {dict(zip(KEYS, min(stray), strict=True))}, which does not divide."
        assert not missing, f"{what} lacks {dict(zip(KEYS, min(missing), strict=True))}."
        assert len(found) == len(expected), f"{what} has {len(found)} plans, but {len(expected)} different ones."


@check(hints=("Activations of min(m, p) micro-batches on l/p layers; ZeRO divides 12, then 2, then 2 bytes by d.",))
def check_memory_is_state_and_activations(student: Student, rng: np.random.Generator) -> None:
    """Memory is what ZeRO leaves of the state, and what recomputation leaves of the activations in flight."""
    assert_costs(student, rng, 0)


@check(hints=("First with free links: (m + p − 1) times the last stage's work. Then each kind's bytes over its link.",))
def check_time_is_work_bubble_and_traffic(student: Student, rng: np.random.Generator) -> None:
    """A step is m + p − 1 times the slowest stage's micro-batch, its traffic included, and data parallelism's."""
    assert_costs(student, rng, 1, inside_bytes_per_s=1e30, between_bytes_per_s=1e30)
    assert_costs(student, rng, 1)


@check(hints=("`choose` was right, and asks your models about every plan. Which plan or cost has it lost?",))
def check_no_other_plan_is_faster(student: Student, rng: np.random.Generator) -> None:
    """The choice is the fastest that fits, or refused; on published rows it fills the node before a second stage."""
    cases = [case(*row) for row in (*SC21, (12, 768, 12, 8, 256), (16, 2048, 24, 8, 512))] + drawn(rng, 8)
    cases.append(case(12, 1536, 12, 48, 96, memory_bytes=1e9))
    choices = student.call("harness.chosen", cases).value
    for (job, cluster), plan in zip(cases, choices, strict=True):
        best, what = best_s(job, cluster), f"choose for {cluster['gpus']} GPUs, {job['layers']} layers says {plan}"
        assert (plan == "refused") != (best < np.inf), f"{what}; the best that fits takes {best:.6g} s."
        memory, seconds = (0, best) if plan == "refused" else costs(job, cluster, tuple(plan[key] for key in KEYS))
        assert memory <= cluster["memory_bytes"], f"{what}, which needs {memory:.3g} bytes, more than there are."
        assert seconds <= best * (1 + 1e-9), f"{what}, which takes {seconds:.6g} s; the best takes {best:.6g} s."
    degrees = [(plan["tensor"], plan["pipeline"]) for plan in choices[:12]]
    assert all(p == 1 or t == 8 for t, p in degrees), f"For published rows choose says (tensor, pipeline) {degrees}."
    published = [(2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8)]  # the rows of 3.6 to 145.6 billion parameters
    assert_equal(degrees[1:7] + degrees[10:], [*published, (1, 1), (1, 1)], "(tensor, pipeline), rows and small models")


@check(hints=("Search again with each of the four numbers of the cluster doubled, and compare the best steps.",))
def check_the_bottleneck_is_what_to_double(student: Student, rng: np.random.Generator) -> None:
    """The bottleneck is the resource of which twice as much shortens the best step most, memory if nothing fits."""
    names = ("flops_per_s", "memory_bytes", "gpus_per_node", "inside_bytes_per_s", "between_bytes_per_s")
    doubled = {"memory": names[1], "compute": names[0], "inside": names[3], "between": names[4]}
    near = ((8.9e15, 22e9, 4, 4.3e9, 23e9, 64), (2.1e18, 4.9e9, 4, 180e9, 6.9e9, 16))  # where two resources are close
    near += ((1.8e15, 7.6e9, 8, 7.4e9, 6.4e9, 16), (2.4e17, 17e9, 4, 15e9, 7.6e9, 64))
    cases = [case(16, 2048, 24, 8, row[-1], **dict(zip(names, row, strict=False))) for row in near] + drawn(rng, 10)
    cases += [case(16, 2048, 24, 8, 64, flops_per_s=1e18, memory_bytes=size) for size in (4e9, 1e9, 1e8)]
    for (job, cluster), name in zip(cases, student.call("harness.named", cases).value, strict=True):
        times = {key: best_s(job, cluster | {field: 2 * cluster[field]}) for key, field in doubled.items()}
        expected = "memory" if best_s(job, cluster) == np.inf else min(times, key=times.__getitem__)
        leaves = ", ".join(f"{seconds:.6g} s ({key})" for key, seconds in times.items())
        assert_equal(name, expected, f"bottleneck of {job['layers']} layers, where doubling leaves {leaves},")

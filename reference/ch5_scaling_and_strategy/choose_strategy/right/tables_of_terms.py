"""Keeps each cost as a table of terms and sums it; a plan is chosen by sorting all that fit."""

from __future__ import annotations

from itertools import product


def divisors(n):
    """Return all divisors."""
    return [k for k in range(1, n + 1) if n % k == 0]


def plans(job, cluster):
    """Try every product of divisors and keep what uses all GPUs."""
    n = cluster["gpus"]
    found = []
    for t, p, d in product(divisors(job["heads"]), divisors(job["layers"]), divisors(job["batch"])):
        if t * p * d != n:
            continue
        for b in divisors(job["batch"] // d):
            for zero, recompute in product(job["zero_stages"], ["none", "selective", "full"]):
                plan = {"data": d, "tensor": t, "pipeline": p, "zero": zero, "micro_batch": b, "recompute": recompute}
                found.append(plan)
    return found


def sizes(job, plan):
    """Name what both costs need."""
    whole = 12 * job["layers"] * job["hidden"] ** 2 + job["hidden"] * job["vocabulary"]
    return {
        "held": whole / plan["tensor"] / plan["pipeline"],
        "m": job["batch"] // plan["data"] // plan["micro_batch"],
        "layers": job["layers"] // plan["pipeline"],
        "bsh": plan["micro_batch"] * job["sequence"] * job["hidden"],
    }


def memory_bytes(job, plan):
    """Sum the terms."""
    x, t = sizes(job, plan), plan["tensor"]
    of = [1, *[1 / plan["data"] if plan["zero"] >= stage else 1 for stage in (1, 2, 3)]]
    full_layer = x["bsh"] * (34 + 5 * job["heads"] * job["sequence"] / job["hidden"]) / t
    per_layer = {"none": full_layer, "selective": 34 * x["bsh"] / t, "full": 2 * x["bsh"]}[plan["recompute"]]
    terms = [12 * of[1] * x["held"], 2 * of[2] * x["held"], 2 * of[3] * x["held"]]
    terms += [per_layer * x["layers"] * min(x["m"], plan["pipeline"])]
    terms += [full_layer] * (plan["recompute"] == "full")
    return sum(terms)


def step_s(job, cluster, plan):
    """Sum the terms of a micro-batch, times how many pass, and the gradients."""
    x, t, p, d = sizes(job, plan), plan["tensor"], plan["pipeline"], plan["data"]
    rates = {True: cluster["inside_bytes_per_s"], False: cluster["between_bytes_per_s"]}
    rate = [rates[span <= cluster["gpus_per_node"]] for span in (t, t * d, t * d * p)]
    weights, scores = 24 * x["bsh"] * job["hidden"], 4 * x["bsh"] * job["sequence"]
    forwards = {"none": (3, 3), "selective": (3, 4), "full": (4, 4)}[plan["recompute"]]
    terms = [
        x["layers"] * (forwards[0] * weights + forwards[1] * scores) / t / cluster["flops_per_s"],
        3 * 2 * x["bsh"] * job["vocabulary"] / t / cluster["flops_per_s"],
        x["layers"] * cluster["layer_s"],
        x["layers"] * 8 * x["bsh"] * (t - 1) / t * 2 / rate[0],
        (4 * x["bsh"] / rate[2]) * (p > 1),
    ]
    trips = (2, 2, 1 + x["m"], 3 * x["m"])[plan["zero"]]
    return sum(terms) * (x["m"] + p - 1) + trips * x["held"] * (d - 1) / d * 2 / rate[1]


def choose(job, cluster):
    """Sort all that fit."""
    fitting = [plan for plan in plans(job, cluster) if memory_bytes(job, plan) <= cluster["memory_bytes"]]
    if len(fitting) == 0:
        raise ValueError("no plan")
    return sorted(fitting, key=lambda plan: step_s(job, cluster, plan))[0]


def bottleneck(job, cluster):
    """Compare speed-ups."""
    fields = {"memory": "memory_bytes", "compute": "flops_per_s"}
    fields |= {"inside": "inside_bytes_per_s", "between": "between_bytes_per_s"}
    try:
        now = step_s(job, cluster, choose(job, cluster))
    except ValueError:
        return "memory"
    saved = {}
    for name, field in fields.items():
        better = {**cluster, field: 2 * cluster[field]}
        saved[name] = now - step_s(job, better, choose(job, better))
    return max(saved, key=saved.get)

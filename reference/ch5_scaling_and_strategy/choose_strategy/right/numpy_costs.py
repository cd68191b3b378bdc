"""Builds plans as nested comprehensions in another order, and finds the best with numpy's argmin."""

from __future__ import annotations

import numpy as np


def divisors(n):
    """Return all divisors."""
    return [k for k in range(n, 0, -1) if not n % k]


def plans(job, cluster):
    """Go by pipeline first."""
    n = cluster["gpus"]
    return [
        {"recompute": r, "micro_batch": b, "zero": z, "pipeline": p, "tensor": t, "data": n // p // t}
        for p in divisors(job["layers"])
        if n % p == 0
        for t in divisors(n // p)
        if job["heads"] % t == 0 and job["batch"] % (n // p // t) == 0
        for b in divisors(job["batch"] // (n // p // t))
        for z in job["zero_stages"]
        for r in ("full", "selective", "none")
    ]


def numbers(job, plan):
    """Return Ψ, m, bsh and the layers of a stage."""
    psi = job["hidden"] * (12 * job["layers"] * job["hidden"] + job["vocabulary"])
    m = job["batch"] / plan["data"] / plan["micro_batch"]
    bsh = plan["micro_batch"] * job["sequence"] * job["hidden"]
    return psi / plan["tensor"] / plan["pipeline"], round(m), bsh, job["layers"] // plan["pipeline"]


def memory_bytes(job, plan):
    """State, then activations."""
    psi, m, bsh, layers = numbers(job, plan)
    divided = np.array([12, 2, 2]) / np.where(np.array([1, 2, 3]) <= plan["zero"], plan["data"], 1)
    scores = 5 * job["heads"] * job["sequence"] * bsh / job["hidden"]
    everything = (34 * bsh + scores) / plan["tensor"]
    held = layers * min(m, plan["pipeline"])
    match plan["recompute"]:
        case "none":
            activations = held * everything
        case "selective":
            activations = held * 34 * bsh / plan["tensor"]
        case _:
            activations = held * 2 * bsh + everything
    return float(divided.sum() * psi + activations)


def step_s(job, cluster, plan):
    """Everything that takes time."""
    psi, m, bsh, layers = numbers(job, plan)
    t, d, p, h, s = plan["tensor"], plan["data"], plan["pipeline"], job["hidden"], job["sequence"]

    def seconds(n_elements, ranks):
        near = ranks <= cluster["gpus_per_node"]
        return 2 * n_elements / (cluster["inside_bytes_per_s"] if near else cluster["between_bytes_per_s"])

    times = {"none": (3, 3), "selective": (3, 4), "full": (4, 4)}[plan["recompute"]]
    flops = layers * bsh * (24 * h * times[0] + 4 * s * times[1]) + 6 * bsh * job["vocabulary"]
    micro = flops / (t * cluster["flops_per_s"]) + layers * (cluster["layer_s"] + seconds(8 * bsh * (1 - 1 / t), t))
    if p != 1:
        micro += seconds(2 * bsh, cluster["gpus"])
    trips = [2, 2, m + 1, 3 * m][plan["zero"]]
    return micro * (p - 1 + m) + trips * seconds(psi * (1 - 1 / d), t * d)


def choose(job, cluster):
    """Mask what does not fit."""
    every = plans(job, cluster)
    times = np.array(
        [step_s(job, cluster, p) if memory_bytes(job, p) <= cluster["memory_bytes"] else np.inf for p in every]
    )
    if np.isinf(times).all():
        raise ValueError("nothing fits")
    return every[int(times.argmin())]


def bottleneck(job, cluster):
    """Double one after the other."""
    fields = ["memory_bytes", "flops_per_s", "inside_bytes_per_s", "between_bytes_per_s"]
    try:
        choose(job, cluster)
    except ValueError:
        return "memory"
    times = []
    for field in fields:
        richer = dict(cluster)
        richer[field] *= 2
        times.append(step_s(job, richer, choose(job, richer)))
    return ["memory", "compute", "inside", "between"][times.index(min(times))]

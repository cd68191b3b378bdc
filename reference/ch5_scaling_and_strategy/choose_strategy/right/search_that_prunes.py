"""Searches with early exits: a plan is built only if its split divides, timed only if it fits."""

from __future__ import annotations


def divisors(n):
    """Return all divisors."""
    small = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return sorted({*small, *(n // k for k in small)})


def plans(job, cluster):
    """Collect the generator."""
    return list(every(job, cluster))


def every(job, cluster):
    """Yield plans by data-parallel degree."""
    for d in divisors(cluster["gpus"]):
        if job["batch"] % d:
            continue
        for t in divisors(cluster["gpus"] // d):
            p = cluster["gpus"] // d // t
            if job["heads"] % t or job["layers"] % p:
                continue
            for b in range(1, job["batch"] // d + 1):
                if job["batch"] % (d * b) == 0:
                    for zero in job["zero_stages"]:
                        for recompute in ("none", "full", "selective"):
                            yield {
                                "data": d, "tensor": t, "pipeline": p,
                                "zero": zero, "micro_batch": b, "recompute": recompute,
                            }  # fmt: skip


def held(job, plan):
    """Return the parameters of a GPU."""
    layer = 12 * job["hidden"] ** 2
    return (layer * job["layers"] + job["vocabulary"] * job["hidden"]) / (plan["tensor"] * plan["pipeline"])


def memory_bytes(job, plan):
    """Add up tensor by tensor."""
    d, t, b = plan["data"], plan["tensor"], plan["micro_batch"]
    weight, gradient, optimizer = 2, 2, 12
    if plan["zero"] > 0:
        optimizer /= d
    if plan["zero"] > 1:
        gradient /= d
    if plan["zero"] > 2:
        weight /= d
    s, h, a = job["sequence"], job["hidden"], job["heads"]
    linear, scores = 34 * s * b * h / t, 5 * a * s * s * b / t
    one_layer = {"none": linear + scores, "selective": linear, "full": 2 * s * b * h}[plan["recompute"]]
    m = job["batch"] // d // b
    layers = job["layers"] / plan["pipeline"] * min(plan["pipeline"], m)
    extra = linear + scores if plan["recompute"] == "full" else 0
    return held(job, plan) * (weight + gradient + optimizer) + layers * one_layer + extra


def bandwidth(cluster, ranks):
    """Pick the link."""
    if ranks > cluster["gpus_per_node"]:
        return cluster["between_bytes_per_s"]
    return cluster["inside_bytes_per_s"]


def step_s(job, cluster, plan):
    """Walk through a step."""
    d, t, p, b = plan["data"], plan["tensor"], plan["pipeline"], plan["micro_batch"]
    s, h = job["sequence"], job["hidden"]
    layer, attention, logits = 24 * b * s * h**2, 4 * b * s**2 * h, 2 * b * s * h * job["vocabulary"]
    seconds = 0.0
    for _ in range(job["layers"] // p):
        flops = 3 * (layer + attention)
        flops += {"none": 0, "selective": attention, "full": layer + attention}[plan["recompute"]]
        seconds += flops / t / cluster["flops_per_s"] + cluster["layer_s"]
        seconds += 4 * 2 * (t - 1) / t * b * s * h * 2 / bandwidth(cluster, t)
    seconds += 3 * logits / t / cluster["flops_per_s"]
    if p > 1:
        seconds += 2 * b * s * h * 2 / bandwidth(cluster, d * t * p)
    m = job["batch"] // (d * b)
    gathers, scatters = [(0, 2), (1, 1), (1, m), (2 * m, m)][plan["zero"]]
    data = (gathers + scatters) * held(job, plan) * 2 * (d - 1) / d / bandwidth(cluster, t * d)
    return seconds * m + seconds * (p - 1) + data


def choose(job, cluster):
    """Keep the best so far."""
    best, best_s = None, float("inf")
    for plan in every(job, cluster):
        if memory_bytes(job, plan) > cluster["memory_bytes"]:
            continue
        if (seconds := step_s(job, cluster, plan)) < best_s:
            best, best_s = plan, seconds
    if best is None:
        raise ValueError
    return best


def bottleneck(job, cluster):
    """Sort by the step that is left."""

    def with_twice(field):
        richer = cluster | {field: cluster[field] * 2}
        return step_s(job, richer, choose(job, richer))

    names = {
        "memory": "memory_bytes", "compute": "flops_per_s",
        "inside": "inside_bytes_per_s", "between": "between_bytes_per_s",
    }  # fmt: skip
    try:
        choose(job, cluster)
        return sorted(names, key=lambda name: with_twice(names[name]))[0]
    except ValueError:
        return "memory"

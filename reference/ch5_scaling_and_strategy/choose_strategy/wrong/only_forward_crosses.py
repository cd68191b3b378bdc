"""A stage hands its activation on.

Caught by: check_time_is_work_bubble_and_traffic
"""

from __future__ import annotations

from itertools import product
from typing import Literal, TypedDict

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")


class Job(TypedDict):
    """A model, its batch, and the stages of ZeRO that the software offers."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    batch: int  # sequences in a step, of all GPUs
    zero_stages: list[int]


class Cluster(TypedDict):
    """Equal GPUs in equal nodes; all numbers are those of one GPU."""

    gpus: int
    gpus_per_node: int
    memory_bytes: float
    flops_per_s: float  # as kernels reach them
    layer_s: float  # spent on each layer and micro-batch whatever its size: launches
    inside_bytes_per_s: float
    between_bytes_per_s: float


class Plan(TypedDict):
    """How to spread it."""

    data: int
    tensor: int
    pipeline: int
    zero: int
    micro_batch: int
    recompute: Recompute


def divisors(n: int) -> list[int]:
    """Return all divisors, in order."""
    return [k for k in range(1, n + 1) if n % k == 0]


def plans(job: Job, cluster: Cluster) -> list[Plan]:
    """Return every plan that uses all GPUs."""
    found = []
    for t, p in product(divisors(job["heads"]), divisors(job["layers"])):
        d, rest = divmod(cluster["gpus"], t * p)
        if rest or job["batch"] % d:
            continue
        for b, zero, recompute in product(divisors(job["batch"] // d), job["zero_stages"], RECOMPUTE):
            found.append(Plan(data=d, tensor=t, pipeline=p, zero=zero, micro_batch=b, recompute=recompute))
    return found


def _parameters(job: Job, plan: Plan) -> float:
    whole = 12 * job["layers"] * job["hidden"] ** 2 + job["vocabulary"] * job["hidden"]
    return whole / (plan["tensor"] * plan["pipeline"])


def _micro_batches(job: Job, plan: Plan) -> int:
    return job["batch"] // (plan["data"] * plan["micro_batch"])


def memory_bytes(job: Job, plan: Plan) -> float:
    """Return what a GPU of the first stage holds at most."""
    d, p, zero = plan["data"], plan["pipeline"], plan["zero"]
    per_parameter = 2 / (d if zero >= 3 else 1) + 2 / (d if zero >= 2 else 1) + 12 / (d if zero >= 1 else 1)
    sbh = job["sequence"] * plan["micro_batch"] * job["hidden"]
    scores = 5 * job["heads"] * job["sequence"] / job["hidden"]
    whole = sbh * (34 + scores) / plan["tensor"]
    kept = {"none": whole, "selective": 34 * sbh / plan["tensor"], "full": 2.0 * sbh}[plan["recompute"]]
    in_flight = min(p, _micro_batches(job, plan)) * job["layers"] // p
    at_work = whole if plan["recompute"] == "full" else 0.0  # the layer whose backward is running
    return _parameters(job, plan) * per_parameter + in_flight * kept + at_work


def _link(cluster: Cluster, span: int) -> float:
    return cluster["inside_bytes_per_s" if span <= cluster["gpus_per_node"] else "between_bytes_per_s"]


def _micro_batch_s(job: Job, cluster: Cluster, plan: Plan) -> float:
    """Return what the last stage needs for one micro-batch, forward and backward."""
    t, p = plan["tensor"], plan["pipeline"]
    n_layers, s, h = job["layers"] // p, job["sequence"], job["hidden"]
    bsh = plan["micro_batch"] * s * h
    weights, attention, logits = 24 * bsh * h * n_layers, 4 * bsh * s * n_layers, 2 * bsh * job["vocabulary"]
    again = {"none": 0, "selective": attention, "full": weights + attention}[plan["recompute"]]
    compute_s = (3 * (weights + attention + logits) + again) / t / cluster["flops_per_s"]
    tensor_s = n_layers * 2 * 8 * bsh * (t - 1) / t / _link(cluster, t)
    pipeline_s = 2 * bsh / _link(cluster, cluster["gpus"]) if p > 1 else 0.0
    return compute_s + n_layers * cluster["layer_s"] + tensor_s + pipeline_s


def step_s(job: Job, cluster: Cluster, plan: Plan) -> float:
    """Return how long a step takes."""
    d, m = plan["data"], _micro_batches(job, plan)
    trips = {0: 2, 1: 2, 2: 1 + m, 3: 3 * m}[plan["zero"]]
    data_s = trips * 2 * _parameters(job, plan) * (d - 1) / d / _link(cluster, plan["tensor"] * d)
    return (m + plan["pipeline"] - 1) * _micro_batch_s(job, cluster, plan) + data_s


def choose(job: Job, cluster: Cluster) -> Plan:
    """Return the fastest plan that fits."""
    fits = [plan for plan in plans(job, cluster) if memory_bytes(job, plan) <= cluster["memory_bytes"]]
    if not fits:
        raise ValueError("No plan fits. Use more GPUs, or larger ones.")
    return min(fits, key=lambda plan: step_s(job, cluster, plan))


def _best_s(job: Job, cluster: Cluster) -> float:
    return step_s(job, cluster, choose(job, cluster))


def bottleneck(job: Job, cluster: Cluster) -> Literal["memory", "compute", "inside", "between"]:
    """Return what one would have to double for the shortest step."""
    richer: dict[Literal["memory", "compute", "inside", "between"], Cluster] = {
        "memory": {**cluster, "memory_bytes": 2 * cluster["memory_bytes"]},
        "compute": {**cluster, "flops_per_s": 2 * cluster["flops_per_s"]},
        "inside": {**cluster, "inside_bytes_per_s": 2 * cluster["inside_bytes_per_s"]},
        "between": {**cluster, "between_bytes_per_s": 2 * cluster["between_bytes_per_s"]},
    }
    try:
        return min(richer, key=lambda name: _best_s(job, richer[name]))  # another plan may be the best one there
    except ValueError:  # with as little memory as now nothing fits
        return "memory"

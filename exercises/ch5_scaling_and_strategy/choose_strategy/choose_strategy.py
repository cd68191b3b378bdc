"""Search for the fastest way to spread a model and its batch over a cluster."""

from __future__ import annotations

from typing import Literal, TypedDict

Recompute = Literal["none", "selective", "full"]
RECOMPUTE: tuple[Recompute, ...] = ("none", "selective", "full")
STATE_BYTES = 16  # of a parameter: weight, gradient, optimizer


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
    for tensor in reversed(divisors(cluster["gpus"])):
        for pipeline in reversed(divisors(cluster["gpus"] // tensor)):
            data = cluster["gpus"] // (tensor * pipeline)
            for zero in reversed(job["zero_stages"]):
                split = Plan(data=data, tensor=tensor, pipeline=pipeline, zero=zero, micro_batch=1, recompute="full")
                found.append(split)
    return found


def memory_bytes(job: Job, plan: Plan) -> float:
    """Return what a GPU of the first stage holds at most."""
    parameters = 12 * job["layers"] * job["hidden"] ** 2 + job["vocabulary"] * job["hidden"]
    shards = plan["data"] if plan["zero"] else 1
    return STATE_BYTES * parameters / (plan["tensor"] * plan["pipeline"] * shards)


def step_s(job: Job, cluster: Cluster, plan: Plan) -> float:
    """Return how long a step takes."""
    h, s = job["hidden"], job["sequence"]
    forward = job["layers"] * (24 * s * h**2 + 4 * s**2 * h) + 2 * s * h * job["vocabulary"]
    return 3 * job["batch"] * forward / (cluster["gpus"] * cluster["flops_per_s"])


def choose(job: Job, cluster: Cluster) -> Plan:
    """Return the fastest plan that fits."""
    fits = [plan for plan in plans(job, cluster) if memory_bytes(job, plan) <= cluster["memory_bytes"]]
    if not fits:
        raise ValueError("No plan fits. Use more GPUs, or larger ones.")
    return min(fits, key=lambda plan: step_s(job, cluster, plan))


def bottleneck(job: Job, cluster: Cluster) -> Literal["memory", "compute", "inside", "between"]:
    """Return what one would have to double for the shortest step."""
    return "compute"


# Megatron-LM's table: billions of parameters, heads, hidden size, layers, GPUs, batch, tensor and pipeline degree.
ROWS = (
    (1.7, 24, 2304, 24, 32, 512, "1, 1"), (7.5, 32, 4096, 36, 128, 512, "4, 1"),
    (18.4, 48, 6144, 40, 256, 1024, "8, 1"), (39.1, 64, 8192, 48, 512, 1536, "8, 2"),
    (145.6, 96, 12288, 80, 1536, 2304, "8, 8"),
)  # fmt: skip


def example() -> None:
    """Plan five rows of the table, on A100 with 80 GB, without ZeRO."""
    for billions, heads, hidden, layers, gpus, batch, published in ROWS:
        job = Job(
            layers=layers, hidden=hidden, heads=heads, vocabulary=51200, sequence=2048, batch=batch, zero_stages=[0]
        )
        a100 = Cluster(
            gpus=gpus, gpus_per_node=8, memory_bytes=80e9, flops_per_s=140e12, layer_s=1e-4,
            inside_bytes_per_s=300e9, between_bytes_per_s=25e9,
        )  # fmt: skip
        plan = choose(job, a100)
        print(
            f"{billions:5.1f} billion on {gpus:4} GPUs   tensor, pipeline: {plan['tensor']}, {plan['pipeline']}", end=""
        )
        print(f"   published: {published}")


if __name__ == "__main__":
    example()

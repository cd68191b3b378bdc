"""Ranks that follow each other are on one node.

Caught by: check_the_slowest_link_counts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict


class Job(TypedDict):
    """A model, its batch, and how both are spread."""

    parameters: int
    layers: int
    hidden: int
    sequence: int
    micro_batch: int  # sequences
    micro_batches: int  # of one replica in a step
    data: int  # degrees of parallelism
    tensor: int
    pipeline: int
    chunks: int  # of the model on each pipeline stage
    zero: int  # stage of ZeRO, 0 for none
    parameter_bytes: int  # of one element
    gradient_bytes: int
    activation_bytes: int


class Cluster(TypedDict):
    """Nodes of GPUs, and the links of one GPU."""

    gpus_per_node: int
    inside_bytes_per_s: float
    between_bits_per_s: float


def all_reduce_bytes(n_bytes: float, n_ranks: int) -> float:
    """Return what one rank of a ring sends to all-reduce a tensor."""
    return 2 * (n_ranks - 1) / n_ranks * n_bytes


def _activation_bytes(job: Job) -> int:
    return job["micro_batch"] * job["sequence"] * job["hidden"] * job["activation_bytes"]


def data_parallel_bytes(job: Job) -> float:
    """Return what a GPU sends in a step for data parallelism."""
    m = job["micro_batches"]
    gathers, scatters = {0: (0, 2), 1: (1, 1), 2: (1, m), 3: (2 * m, m)}[
        job["zero"]
    ]  # an all-reduce is like 2 scatters
    per_parameter = gathers * job["parameter_bytes"] + scatters * job["gradient_bytes"]
    held = job["parameters"] / (job["tensor"] * job["pipeline"])
    return all_reduce_bytes(held * per_parameter, job["data"]) / 2


def tensor_parallel_bytes(job: Job) -> float:
    """Return what a GPU sends in a step for tensor parallelism."""
    n_all_reduces = 4 * job["layers"] // job["pipeline"] * job["micro_batches"]
    return n_all_reduces * all_reduce_bytes(_activation_bytes(job), job["tensor"])


def pipeline_bytes(job: Job, stage: int) -> float:
    """Return what a GPU of one stage sends in a step to its neighbours in the pipeline."""
    forward = job["chunks"] - (stage == job["pipeline"] - 1)  # nothing follows the last chunk
    backward = job["chunks"] - (stage == 0)  # nothing precedes the first
    return float((forward + backward) * job["micro_batches"] * _activation_bytes(job))


def group_of_rank_0(job: Job, kind: Literal["tensor", "data", "pipeline"]) -> list[int]:
    """Return the ranks of rank 0's group: neighbours are tensor parallel, then data parallel, then stages."""
    step = {"tensor": 1, "data": job["tensor"], "pipeline": job["tensor"] * job["data"]}[kind]
    return list(range(0, step * job[kind], step))


def transfer_s(n_bytes: float, ranks: Sequence[int], cluster: Cluster) -> float:
    """Return how long it takes a GPU to send so many bytes within a group of ranks."""
    if ranks[-1] - ranks[0] < cluster["gpus_per_node"]:
        return n_bytes / cluster["inside_bytes_per_s"]
    return n_bytes / (cluster["between_bits_per_s"] / 8)


def step_s(compute_s: float, data_s: float, tensor_s: float, pipeline_s: float, hidden_s: float) -> float:
    """Return how long a step takes that computes and communicates, where `hidden_s` may run beside computation."""
    return compute_s + tensor_s + pipeline_s + max(0.0, data_s - hidden_s)

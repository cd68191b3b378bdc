"""Budget the communication of a training step: how many bytes a GPU sends, over which link, and who waits for them."""

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


def data_parallel_bytes(job: Job) -> float:
    """Return what a GPU sends in a step for data parallelism."""
    return all_reduce_bytes(job["parameters"] * job["gradient_bytes"], job["data"])


def tensor_parallel_bytes(job: Job) -> float:
    """Return what a GPU sends in a step for tensor parallelism."""
    return all_reduce_bytes(job["parameters"] * job["gradient_bytes"], job["tensor"])


def pipeline_bytes(job: Job, stage: int) -> float:
    """Return what a GPU of one stage sends in a step to its neighbours in the pipeline."""
    return all_reduce_bytes(job["parameters"] * job["gradient_bytes"], job["pipeline"])


def group_of_rank_0(job: Job, kind: Literal["tensor", "data", "pipeline"]) -> list[int]:
    """Return the ranks of rank 0's group: neighbours are tensor parallel, then data parallel, then stages."""
    step = {"tensor": 1, "data": job["tensor"], "pipeline": job["tensor"] * job["data"]}[kind]
    return list(range(0, step * job[kind], step))


def transfer_s(n_bytes: float, ranks: Sequence[int], cluster: Cluster) -> float:
    """Return how long it takes a GPU to send so many bytes within a group of ranks."""
    if len(ranks) <= cluster["gpus_per_node"]:
        return n_bytes / cluster["inside_bytes_per_s"]
    return n_bytes / cluster["between_bits_per_s"]


def step_s(compute_s: float, data_s: float, tensor_s: float, pipeline_s: float, hidden_s: float) -> float:
    """Return how long a step takes that computes and communicates, where `hidden_s` may run beside computation."""
    return max(compute_s, data_s + tensor_s + pipeline_s)


# Megatron-LM's row of 145.6 billion parameters on 1536 A100: 192 nodes, batch 2304, sequences of 2048.
GPT_145B = Job(
    parameters=145_600_000_000, layers=80, hidden=12288, sequence=2048, micro_batch=1, micro_batches=96,
    data=24, tensor=8, pipeline=8, chunks=1, zero=0, parameter_bytes=2, gradient_bytes=4, activation_bytes=2,
)  # fmt: skip
NODES_OF_A100 = Cluster(gpus_per_node=8, inside_bytes_per_s=300e9, between_bits_per_s=200e9)


def example() -> None:
    """Budget the row's communication."""
    budgets = {
        "tensor": (tensor_parallel_bytes(GPT_145B), "338.2 GB of activations"),
        "pipeline": (pipeline_bytes(GPT_145B, 3), "9.7 GB of activations and their gradients, to both neighbours"),
        "data": (data_parallel_bytes(GPT_145B), "17.4 GB of gradients, for 1/64 of the parameters"),
    }
    for kind, (n_bytes, expected) in budgets.items():
        seconds = transfer_s(n_bytes, group_of_rank_0(GPT_145B, kind), NODES_OF_A100)  # type: ignore[arg-type]  # its keys
        print(f"{kind:8} {n_bytes / 1e9:7.1f} GB in {seconds:6.2f} s      expected: {expected}")


if __name__ == "__main__":
    example()

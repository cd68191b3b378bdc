"""Counts elements by kind first, and turns them into bytes at the very end."""

from __future__ import annotations


def all_reduce_bytes(n_bytes, n_ranks):
    """A ring."""
    return 2 * n_bytes * (n_ranks - 1) / n_ranks


def elements(job):
    """Return elements (of gradients, of parameters) that data parallelism sends."""
    share = job["parameters"] * (job["data"] - 1) / (job["data"] * job["tensor"] * job["pipeline"])
    again = job["micro_batches"]
    match job["zero"]:
        case 0:
            return 2 * share, 0.0
        case 1:
            return share, share
        case 2:
            return share * again, share
        case _:
            return share * again, 2 * share * again


def data_parallel_bytes(job):
    """Weigh the two."""
    gradients, weights = elements(job)
    return gradients * job["gradient_bytes"] + weights * job["parameter_bytes"]


def batch_activation(job):
    """Return the bytes of all micro-batches' activations at one border."""
    sequences = job["micro_batch"] * job["micro_batches"]
    return sequences * job["sequence"] * job["hidden"] * job["activation_bytes"]


def tensor_parallel_bytes(job):
    """All micro-batches at once: bytes do not care."""
    return 4 * (job["layers"] // job["pipeline"]) * all_reduce_bytes(batch_activation(job), job["tensor"])


def pipeline_bytes(job, stage):
    """Forward and backward."""
    if job["pipeline"] == 1:
        return 0
    messages = 2 * job["chunks"]
    if stage in (0, job["pipeline"] - 1):
        messages -= 1
    return messages * batch_activation(job)


def group_of_rank_0(job, kind):
    """As it was."""
    step = {"tensor": 1, "data": job["tensor"], "pipeline": job["tensor"] * job["data"]}[kind]
    return [step * i for i in range(job[kind])]


def transfer_s(n_bytes, ranks, cluster):
    """Compare every rank's node with the first one's."""
    home = ranks[0] // cluster["gpus_per_node"]
    if all(rank // cluster["gpus_per_node"] == home for rank in ranks):
        return n_bytes / cluster["inside_bytes_per_s"]
    return n_bytes * 8 / cluster["between_bits_per_s"]


def step_s(compute_s, data_s, tensor_s, pipeline_s, hidden_s):
    """Add what is exposed."""
    step = compute_s + tensor_s + pipeline_s
    if data_s > hidden_s:
        step += data_s - hidden_s
    return step

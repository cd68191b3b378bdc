"""Lists every message of a step and adds them up, chunk by chunk and micro-batch by micro-batch."""

from __future__ import annotations

from fractions import Fraction


def ring(n_bytes, n_ranks):
    """Return what a rank sends in one trip round a ring: all parts but one."""
    return Fraction(n_bytes) * (n_ranks - 1) / n_ranks


def all_reduce_bytes(n_bytes, n_ranks):
    """Two trips."""
    return float(2 * ring(n_bytes, n_ranks))


def data_parallel_bytes(job):
    """Walk through the step."""
    held = Fraction(job["parameters"], job["tensor"] * job["pipeline"])
    gradients, weights, d = held * job["gradient_bytes"], held * job["parameter_bytes"], job["data"]
    sent = Fraction(0)
    for _ in range(job["micro_batches"]):
        if job["zero"] == 3:
            sent += ring(weights, d)  # for forward
            sent += ring(weights, d)  # for backward
        if job["zero"] >= 2:
            sent += ring(gradients, d)
    if job["zero"] < 2:
        sent += ring(gradients, d)
    if job["zero"] == 0:
        sent += ring(gradients, d)
    if job["zero"] in (1, 2):
        sent += ring(weights, d)
    return float(sent)


def activation(job):
    """Return the bytes of one activation."""
    return job["activation_bytes"] * job["hidden"] * job["sequence"] * job["micro_batch"]


def tensor_parallel_bytes(job):
    """Layer by layer."""
    sent = 0.0
    for _ in range(job["micro_batches"]):
        for _ in range(job["layers"] // job["pipeline"]):
            sent += 4 * all_reduce_bytes(activation(job), job["tensor"])
    return sent


def pipeline_bytes(job, stage):
    """Border by border."""
    last = job["pipeline"] * job["chunks"] - 1
    sent = 0
    for chunk in range(last + 1):
        if chunk % job["pipeline"] == stage:
            sent += (chunk < last) + (chunk > 0)
    return sent * job["micro_batches"] * activation(job) if job["pipeline"] > 1 else 0


def group_of_rank_0(job, kind):
    """As it was."""
    step = {"tensor": 1, "data": job["tensor"], "pipeline": job["tensor"] * job["data"]}[kind]
    return [step * i for i in range(job[kind])]


def transfer_s(n_bytes, ranks, cluster):
    """Ask whether the first and the last rank share a node."""
    node = cluster["gpus_per_node"]
    near = min(ranks) // node == max(ranks) // node
    return n_bytes / cluster["inside_bytes_per_s"] if near else 8 * n_bytes / cluster["between_bits_per_s"]


def step_s(compute_s, data_s, tensor_s, pipeline_s, hidden_s):
    """Hide what can be hidden."""
    exposed = data_s - min(data_s, hidden_s)
    return exposed + pipeline_s + tensor_s + compute_s

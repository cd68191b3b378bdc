"""Uses the papers' closed forms, 8bsh(t − 1)/t and units of Ψ, in floats."""

from __future__ import annotations

import numpy as np


def all_reduce_bytes(n_bytes, n_ranks):
    """A ring."""
    return n_bytes * (2 - 2 / n_ranks)


def data_parallel_bytes(job):
    """Look the factors up."""
    m, g, w = job["micro_batches"], job["gradient_bytes"], job["parameter_bytes"]
    factors = np.array([2 * g, g + w, m * g + w, m * g + 2 * m * w])
    psi = job["parameters"] / job["tensor"] / job["pipeline"]
    return psi * factors[job["zero"]] * (1 - 1 / job["data"])


def tensor_parallel_bytes(job):
    """8bsh(t - 1)/t, for l/p layers and m micro-batches."""
    bsh, t = job["micro_batch"] * job["sequence"] * job["hidden"], job["tensor"]
    elements = 8 * bsh * (t - 1) / t * job["layers"] / job["pipeline"] * job["micro_batches"]
    return elements * job["activation_bytes"]


def pipeline_bytes(job, stage):
    """2vbsh, without the ends."""
    bsh = job["micro_batch"] * job["sequence"] * job["hidden"]
    both_ways = 2 * job["chunks"] - [stage == 0, stage == job["pipeline"] - 1].count(True)
    if job["pipeline"] < 2:
        both_ways = 0
    return both_ways * bsh * job["micro_batches"] * job["activation_bytes"]


def group_of_rank_0(job, kind):
    """As it was."""
    step = {"tensor": 1, "data": job["tensor"], "pipeline": job["tensor"] * job["data"]}[kind]
    return [step * i for i in range(job[kind])]


def transfer_s(n_bytes, ranks, cluster):
    """Count nodes with numpy."""
    n_nodes = np.unique(np.asarray(ranks) // cluster["gpus_per_node"]).size
    bytes_per_s = cluster["inside_bytes_per_s"] if n_nodes == 1 else cluster["between_bits_per_s"] / 8
    return np.float64(n_bytes) / bytes_per_s


def step_s(compute_s, data_s, tensor_s, pipeline_s, hidden_s):
    """Clip at nothing."""
    return float(compute_s + tensor_s + pipeline_s + np.clip(data_s - hidden_s, 0, None))

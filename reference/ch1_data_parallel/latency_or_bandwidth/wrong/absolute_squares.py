"""Least squares weigh every measurement the same.

Caught by: check_both_numbers_are_fitted
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ALGORITHMS = ("ring", "recursive doubling", "halving and doubling")
Link = dict[str, float]


def all_reduce_s(algorithm: str, n_bytes: int, world_size: int, link: Link) -> float:
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""
    doublings = world_size.bit_length() - 1
    paired = 2**doublings
    if algorithm == "ring":
        steps, vectors = 2 * (world_size - 1), 2 * (world_size - 1) / world_size
    elif algorithm == "recursive doubling":
        steps, vectors = doublings, doublings
    else:
        steps, vectors = 2 * doublings, 2 * (paired - 1) / paired
    if algorithm != "ring" and paired < world_size:
        steps, vectors = steps + 2, vectors + 2
    return steps * link["alpha_s"] + vectors * n_bytes * link["beta_s_per_byte"]


def fastest(n_bytes: int, world_size: int, link: Link) -> str:
    """Return the algorithm that is done first."""
    return min(ALGORITHMS, key=lambda algorithm: all_reduce_s(algorithm, n_bytes, world_size, link))


def bus_bandwidth(op: str, n_bytes: int, seconds: float, world_size: int) -> float:
    """Return the bytes per second that a measured collective moved through each rank's link."""
    once = (world_size - 1) / world_size
    factors = {"all_reduce": 2 * once, "reduce_scatter": once, "all_gather": once, "all_to_all": once}
    return factors.get(op, 1.0) * n_bytes / seconds


def fit(measured: Sequence[tuple[int, float]], world_size: int) -> Link:
    """Return the link on which ring all-reduces of so many bytes took so many seconds."""
    n_bytes, seconds = np.array(measured, dtype=np.float64).T
    steps, vectors = 2 * (world_size - 1), 2 * (world_size - 1) / world_size
    terms = np.stack([np.full_like(n_bytes, steps), vectors * n_bytes], axis=1)
    (alpha_s, beta_s_per_byte), *_ = np.linalg.lstsq(terms, seconds, rcond=None)
    return {"alpha_s": float(alpha_s), "beta_s_per_byte": float(beta_s_per_byte)}

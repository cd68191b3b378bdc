"""Predict how long an all-reduce takes, choose an algorithm for it, and read what a benchmark says.

With alpha for a message to start, beta for each of its bytes, n bytes and p = 2^r ranks:

    ring                   2(p - 1) alpha  +  2(p - 1)/p n beta      p chunks, two phases of p - 1 steps
    recursive doubling            r alpha  +           r n beta      whole vectors every time
    halving and doubling         2r alpha  +  2(p - 1)/p n beta      n/2 + n/4 + ... + n/p = (p - 1)/p n, twice

No algorithm sends less than 2(p - 1)/p n bytes a rank or takes fewer than r steps. Small messages are all alpha, so
few steps win; large ones are all beta, so little traffic wins. Where p is no power of two the extra ranks add two
messages of the whole vector, and for large n the ring, which needs no power of two, wins.

Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005 (doi
10.1177/1094342005051521); Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms, 2009; nccl-tests, PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

ALGORITHMS = ("ring", "recursive doubling", "halving and doubling")


class Link(TypedDict):
    """What a message of n bytes costs: alpha_s + n * beta_s_per_byte."""

    alpha_s: float
    beta_s_per_byte: float


def all_reduce_s(algorithm: str, n_bytes: int, world_size: int, link: Link) -> float:
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"There is no algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}.")
    if algorithm == "ring":
        steps, vectors = _ring(world_size)
    else:
        doublings = world_size.bit_length() - 1
        paired = 2**doublings
        if algorithm == "recursive doubling":
            steps, vectors = doublings, float(doublings)
        else:
            steps, vectors = 2 * doublings, 2 * (paired - 1) / paired
        if paired < world_size:  # the others hand their vectors over and get the sum back
            steps, vectors = steps + 2, vectors + 2
    return steps * link["alpha_s"] + vectors * n_bytes * link["beta_s_per_byte"]


def _ring(world_size: int) -> tuple[int, float]:
    """Return the steps of a ring all-reduce, and how many vectors' worth of bytes each rank sends in them."""
    return 2 * (world_size - 1), 2 * (world_size - 1) / world_size


def fastest(n_bytes: int, world_size: int, link: Link) -> str:
    """Return the algorithm that is done first."""
    return min(ALGORITHMS, key=lambda algorithm: all_reduce_s(algorithm, n_bytes, world_size, link))


def bus_bandwidth(op: str, n_bytes: int, seconds: float, world_size: int) -> float:
    """Return the bytes per second that a measured collective moved through each rank's link."""
    once = (world_size - 1) / world_size  # a rank need not send its own part to itself
    factors = {"all_reduce": 2 * once, "reduce_scatter": once, "all_gather": once, "all_to_all": once}
    return factors.get(op, 1.0) * n_bytes / seconds


def fit(measured: Sequence[tuple[int, float]], world_size: int) -> Link:
    """Return the link on which ring all-reduces of so many bytes took so many seconds.

    Least squares of *relative* errors: an error of 2 % of the longest time is larger than all short times together, and
    absolute squares would fit alpha to nothing but that.
    """
    steps, vectors = _ring(world_size)
    n_bytes, seconds = np.array(measured, dtype=np.float64).T
    terms = np.stack([np.full_like(n_bytes, steps), vectors * n_bytes], axis=1)
    weighted = terms / seconds[:, None]
    (alpha_s, beta_s_per_byte), *_ = np.linalg.lstsq(weighted, np.ones_like(seconds), rcond=None)
    return Link(alpha_s=float(alpha_s), beta_s_per_byte=float(beta_s_per_byte))

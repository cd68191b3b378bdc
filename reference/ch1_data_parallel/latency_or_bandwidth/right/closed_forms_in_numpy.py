"""Computes each formula with logarithms, and fits the two numbers by weighted normal equations."""

from __future__ import annotations

import math

import numpy as np


def all_reduce_s(algorithm, n_bytes, world_size, link):
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""
    alpha, beta = link["alpha_s"], link["beta_s_per_byte"]
    if world_size == 1:
        return 0.0
    if algorithm == "ring":
        return 2 * (world_size - 1) * (alpha + n_bytes / world_size * beta)
    lg = math.floor(math.log2(world_size))
    extra = 2 * (alpha + n_bytes * beta) if 2**lg != world_size else 0.0
    if algorithm == "recursive doubling":
        return lg * (alpha + n_bytes * beta) + extra
    return 2 * (lg * alpha + (1 - 2.0**-lg) * n_bytes * beta) + extra


def fastest(n_bytes, world_size, link):
    """Return the algorithm that is done first."""
    names = ["ring", "recursive doubling", "halving and doubling"]
    return names[int(np.argmin([all_reduce_s(name, n_bytes, world_size, link) for name in names]))]


def bus_bandwidth(op, n_bytes, seconds, world_size):
    """Return the bytes per second that a measured collective moved through each rank's link."""
    factor = {"all_reduce": 2 - 2 / world_size, "broadcast": 1, "reduce": 1}.get(op, 1 - 1 / world_size)
    return factor * n_bytes / seconds


def fit(measured, world_size):
    """Return the link on which ring all-reduces of so many bytes took so many seconds."""
    size, t = np.array(measured).T
    w = 1 / t**2
    n = 2 * (world_size - 1)
    normal = np.array([[np.sum(w), np.sum(w * size)], [np.sum(w * size), np.sum(w * size**2)]])
    intercept, slope = np.linalg.solve(normal, [np.sum(w * t), np.sum(w * size * t)])
    return {"alpha_s": intercept / n, "beta_s_per_byte": slope * world_size / n}

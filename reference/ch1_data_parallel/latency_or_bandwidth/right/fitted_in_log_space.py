"""Derives the ring from two phases, and fits the logarithms of the times by Gauss-Newton."""

from __future__ import annotations

import numpy as np

ALGORITHMS = ["halving and doubling", "recursive doubling", "ring"]


def all_reduce_s(algorithm, n_bytes, world_size, link):
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""

    def message(size):
        return link["alpha_s"] + link["beta_s_per_byte"] * size

    if algorithm == "ring":
        phase = (world_size - 1) * message(n_bytes / world_size)
        return phase + phase
    if world_size & (world_size - 1):
        below = 1 << (world_size.bit_length() - 1)
        return message(n_bytes) + all_reduce_s(algorithm, n_bytes, below, link) + message(n_bytes)
    if world_size == 1:
        return 0.0
    if algorithm == "recursive doubling":
        return message(n_bytes) + all_reduce_s(algorithm, n_bytes, world_size // 2, link)
    return 2 * message(n_bytes / 2) + all_reduce_s(algorithm, n_bytes / 2, world_size // 2, link)


def fastest(n_bytes, world_size, link):
    """Return the algorithm that is done first."""
    return min((all_reduce_s(name, n_bytes, world_size, link), name) for name in ALGORITHMS)[1]


def bus_bandwidth(op, n_bytes, seconds, world_size):
    """Return the bytes per second that a measured collective moved through each rank's link."""
    moved = n_bytes if op in {"broadcast", "reduce"} else n_bytes - n_bytes / world_size
    return (moved + moved if op == "all_reduce" else moved) / seconds


def fit(measured, world_size):
    """Return the link on which ring all-reduces of so many bytes took so many seconds."""
    sizes, times = (np.array(column, dtype=float) for column in zip(*measured, strict=True))
    steps = 2 * (world_size - 1)
    theta = np.log([times.min() / steps, times.max() / sizes.max()])
    for _ in range(200):
        start, rest = steps * np.exp(theta[0]), steps / world_size * sizes * np.exp(theta[1])
        model = start + rest
        jacobian = np.stack([start / model, rest / model], axis=1)
        theta = theta + 0.5 * np.linalg.lstsq(jacobian, np.log(times / model), rcond=None)[0]
    return {"alpha_s": float(np.exp(theta[0])), "beta_s_per_byte": float(np.exp(theta[1]))}

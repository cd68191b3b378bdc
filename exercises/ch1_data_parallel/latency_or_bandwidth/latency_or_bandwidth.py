"""Predict how long an all-reduce takes, choose an algorithm for it, and read what a benchmark says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

ALGORITHMS = ("ring", "recursive doubling", "halving and doubling")  # README.md says what each does


class Link(TypedDict):
    """What a message of n bytes costs: alpha_s + n * beta_s_per_byte."""

    alpha_s: float  # before its first byte arrives
    beta_s_per_byte: float  # the inverse of the bandwidth


def all_reduce_s(algorithm: str, n_bytes: int, world_size: int, link: Link) -> float:
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""
    if algorithm not in ALGORITHMS:
        raise ValueError(f"There is no algorithm {algorithm!r}; choose one of {', '.join(ALGORITHMS)}.")
    sent_bytes = 2 * n_bytes if world_size > 1 else 0  # once to be added up, once as the sum
    return sent_bytes * link["beta_s_per_byte"]


def fastest(n_bytes: int, world_size: int, link: Link) -> str:
    """Return the algorithm that is done first."""
    return min(ALGORITHMS, key=lambda algorithm: all_reduce_s(algorithm, n_bytes, world_size, link))


def bus_bandwidth(op: str, n_bytes: int, seconds: float, world_size: int) -> float:
    """Return the bytes per second that a measured collective moved through each rank's link."""
    moved_bytes = 2 * n_bytes if op == "all_reduce" else n_bytes
    return moved_bytes / seconds


def fit(measured: Sequence[tuple[int, float]], world_size: int) -> Link:
    """Return the link on which ring all-reduces of so many bytes took so many seconds."""
    moved_bytes = sum(2 * n_bytes for n_bytes, _ in measured)
    return Link(alpha_s=0.0, beta_s_per_byte=sum(seconds for _, seconds in measured) / moved_bytes)


def example() -> None:
    """Predict a small and a large all-reduce on 64 ranks: messages start after 10 us, links carry 10 GB/s."""
    link = Link(alpha_s=10e-6, beta_s_per_byte=1e-10)
    expected_us = [(1260.2, 20947.5), (60.6, 60060.0), (120.2, 19807.5)]
    for algorithm, pair in zip(ALGORITHMS, expected_us, strict=True):
        for n_bytes, us in zip((1_000, 100_000_000), pair, strict=True):
            predicted = all_reduce_s(algorithm, n_bytes, 64, link) * 1e6
            print(f"{algorithm:20} {n_bytes:11,} bytes: predicted {predicted:8.1f} us, expected {us:8.1f} us")


if __name__ == "__main__":
    example()

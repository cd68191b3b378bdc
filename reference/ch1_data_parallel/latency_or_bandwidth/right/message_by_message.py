"""Lists the messages that follow each other and adds up what they cost; fits by the two ends."""

from __future__ import annotations


def messages(algorithm: str, n_bytes: float, p: int) -> list[float]:
    """Return the bytes of the messages of the longest chain."""
    if algorithm == "ring":
        return [n_bytes / p for _ in range(2 * p - 2)]
    half = 1
    chain: list[float] = []
    while 2 * half <= p:
        half *= 2
        chain.append(n_bytes if algorithm == "recursive doubling" else n_bytes / half)
    if algorithm != "recursive doubling":
        chain = chain + chain[::-1]
    return chain if half == p else [n_bytes] + chain + [n_bytes]


def all_reduce_s(algorithm: str, n_bytes: int, world_size: int, link: dict[str, float]) -> float:
    """Return how long `algorithm` takes for a vector of `n_bytes` on each of `world_size` ranks."""
    total = 0.0
    for size in messages(algorithm, n_bytes, world_size):
        total += link["alpha_s"] + size * link["beta_s_per_byte"]
    return total


def fastest(n_bytes: int, world_size: int, link: dict[str, float]) -> str:
    """Return the algorithm that is done first."""
    names = ("recursive doubling", "halving and doubling", "ring")
    return sorted(names, key=lambda name: all_reduce_s(name, n_bytes, world_size, link))[0]


def bus_bandwidth(op: str, n_bytes: int, seconds: float, world_size: int) -> float:
    """Return the bytes per second that a measured collective moved through each rank's link."""
    if op in ("broadcast", "reduce"):
        return n_bytes / seconds
    others = n_bytes * (world_size - 1) / world_size
    return (2 if op == "all_reduce" else 1) * others / seconds


def fit(measured: list[tuple[int, float]], world_size: int) -> dict[str, float]:
    """Return the link on which ring all-reduces of so many bytes took so many seconds."""
    steps = 2 * (world_size - 1)
    ordered = sorted(measured)
    large = [seconds / size for size, seconds in ordered[-5:]]
    beta = sum(large) / len(large) * world_size / steps
    small = [seconds - size * beta * steps / world_size for size, seconds in ordered[:9]]
    return {"alpha_s": sum(small) / len(small) / steps, "beta_s_per_byte": beta}

"""Megatron's warm-up has a factor of two for each rank behind.

Caught by: check_no_more_in_flight_than_ranks_behind
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    warm_up = min(2 * (ranks - 1 - rank), micro_batches)
    actions = [f"{rank}F{i}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i}", f"{rank}B{i - warm_up}"]
    return actions + [f"{rank}B{i}" for i in range(micro_batches - warm_up, micro_batches)]

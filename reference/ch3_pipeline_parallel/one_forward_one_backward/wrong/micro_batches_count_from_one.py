"""Micro-batches are numbered from 1.

Caught by: check_every_rank_does_all_the_work
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    warm_up = min(ranks - 1 - rank, micro_batches)  # the ranks behind this one, if there is as much to do
    actions = [f"{rank}F{i + 1}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i + 1}", f"{rank}B{i - warm_up + 1}"]
    return actions + [f"{rank}B{i + 1}" for i in range(micro_batches - warm_up, micro_batches)]

"""A stage runs ahead for the stages before it and for itself.

Caught by: check_two_ranks_finish
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    warm_up = min(rank + 1, micro_batches)
    actions = [f"{rank}F{i}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i}", f"{rank}B{i - warm_up}"]
    return actions + [f"{rank}B{i}" for i in range(micro_batches - warm_up, micro_batches)]

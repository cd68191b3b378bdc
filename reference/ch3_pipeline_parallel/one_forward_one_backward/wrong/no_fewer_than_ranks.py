"""1F1B needs as many micro-batches as ranks.

Caught by: check_every_pipeline_finishes
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    if micro_batches < ranks:
        raise ValueError("1F1B needs at least as many micro-batches as ranks.")
    warm_up = ranks - 1 - rank
    actions = [f"{rank}F{i}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i}", f"{rank}B{i - warm_up}"]
    return actions + [f"{rank}B{i}" for i in range(micro_batches - warm_up, micro_batches)]

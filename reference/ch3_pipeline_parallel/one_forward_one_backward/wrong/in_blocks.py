"""As many forwards as may be in flight, then as many backwards, and again.

Caught by: check_every_pipeline_finishes
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    at_once = ranks - rank
    actions: list[str] = []
    for first in range(0, micro_batches, at_once):
        block = range(first, min(first + at_once, micro_batches))
        actions += [f"{rank}F{i}" for i in block] + [f"{rank}B{i}" for i in block]
    return actions

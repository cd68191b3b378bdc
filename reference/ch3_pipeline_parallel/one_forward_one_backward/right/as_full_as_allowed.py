"""Goes forward whenever one more may be in flight, and backward otherwise."""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    counts = {"F": 0, "B": 0}
    actions = []
    while counts["B"] < micro_batches:
        may_grow = counts["F"] - counts["B"] < ranks - rank
        kind = "F" if may_grow and counts["F"] < micro_batches else "B"
        actions.append(f"{rank}{kind}{counts[kind]}")
        counts[kind] += 1
    return actions

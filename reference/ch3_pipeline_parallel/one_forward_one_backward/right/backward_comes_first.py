"""Warms up with one forward more and then alternates beginning with a backward, as torch does."""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    ahead = min(micro_batches, ranks - rank)
    actions, forward, backward = [f"{rank}F{i}" for i in range(ahead)], ahead, 0
    while True:
        actions.append(f"{rank}B{backward}")
        backward += 1
        if forward == micro_batches:
            break
        actions.append(f"{rank}F{forward}")
        forward += 1
    while backward < micro_batches:
        actions.append(f"{rank}B{backward}")
        backward += 1
    return actions

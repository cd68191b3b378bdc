"""Writes down the slot of each action in an endless pipeline and sorts by it."""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    ahead = ranks - 1 - rank
    slots = [(max(i, 2 * i - ahead), 0, f"{rank}F{i}") for i in range(micro_batches)]
    slots += [(2 * i + ahead, 1, f"{rank}B{i}") for i in range(micro_batches)]
    return [action for _, _, action in sorted(slots, key=lambda slot: slot[:2])]

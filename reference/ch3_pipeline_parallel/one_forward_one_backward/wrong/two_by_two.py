"""Two forwards, two backwards, where two are in flight: fewer changes of direction.

Caught by: check_no_slower_than_gpipe
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    at_once = min(ranks - rank, micro_batches)
    pace = 2 if at_once > 2 else 1
    forwards = backwards = 0
    actions: list[str] = []
    while backwards < micro_batches:
        room = at_once - (forwards - backwards)
        if forwards < micro_batches and room >= min(pace, micro_batches - forwards, at_once):
            for _ in range(min(room, micro_batches - forwards)):
                actions.append(f"{rank}F{forwards}")
                forwards += 1
        actions.append(f"{rank}B{backwards}")
        backwards += 1
    return actions

"""Makes both lists and weaves them: slices need no clamp."""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    forwards = [f"{rank}F{i}" for i in range(micro_batches)]
    backwards = [f"{rank}B{i}" for i in range(micro_batches)]
    warm_up = ranks - 1 - rank
    woven = [action for pair in zip(forwards[warm_up:], backwards, strict=False) for action in pair]
    return forwards[:warm_up] + woven + backwards[len(woven) // 2 :]

"""Order the work of a pipeline's ranks: one forward, one backward (1F1B).

Rank r of p runs ahead by the p - 1 - r ranks behind it. Its first gradient has to come back from the last of them, and
until then it can only go forward. From then on a backward follows each forward, so that no more is in flight than

    min(m, p - r)        the warm-up, and the micro-batch in work

and in the end the warm-up's backwards are left. A step of m micro-batches takes (m + p - 1)(F + B), as in GPipe.

Narayanan et al., arXiv:2104.04473, section 2.2.1 (the PipeDream-Flush schedule). torch's Schedule1F1B counts the first
forward of the steady phase to the warm-up and then begins with a backward: the same order.
"""

from __future__ import annotations


def schedule(rank: int, ranks: int, micro_batches: int) -> list[str]:
    """Return what a rank computes, in order.

    `2F0` is the forward of micro-batch 0 through stage 2, `2B0` its backward. Stage r is on rank r.
    """
    warm_up = min(ranks - 1 - rank, micro_batches)  # the ranks behind this one, if there is as much to do
    actions = [f"{rank}F{i}" for i in range(warm_up)]
    for i in range(warm_up, micro_batches):
        actions += [f"{rank}F{i}", f"{rank}B{i - warm_up}"]
    return actions + [f"{rank}B{i}" for i in range(micro_batches - warm_up, micro_batches)]

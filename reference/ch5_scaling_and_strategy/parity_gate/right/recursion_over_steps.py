"""Judges one step at a time, recursively, with a cosine-free measure: squared distance over squared norm."""

from __future__ import annotations

import numpy as np


def first_in(expected, ranks):
    """Return (name, rank) of the first tensor that differs, or None."""
    squares = {name: np.vdot(value, value).astype(float) for name, value in expected.items()}
    floor = 1e-4 * sum(squares.values())
    for name in expected:
        rank_of = [r for r in range(len(ranks)) if name in ranks[r]]
        if rank_of == []:
            return name, 0
        for r in rank_of:
            if np.shape(ranks[r][name]) != np.shape(expected[name]):
                return name, r
            difference = ranks[r][name].astype(float) - expected[name]
            if not np.vdot(difference, difference) <= 1e-8 * max(squares[name], floor):
                return name, r
    return None


def parity(reference, candidate, step=0):
    """Judge this step, then the rest."""
    if step == len(reference["gradients"]):
        return None
    if not any(np.any(value) for value in reference["gradients"][step][0].values()):
        raise ValueError("zero gradient")
    for kind in ("gradients", "parameters"):
        ranks = candidate[kind][step] if step < len(candidate[kind]) else []
        if (place := first_in(reference[kind][step][0], ranks)) is not None:
            return {"step": step, "kind": kind, "name": place[0], "rank": place[1]}
    return parity(reference, candidate, step + 1)

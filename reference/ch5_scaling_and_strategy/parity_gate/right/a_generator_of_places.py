"""Yields the places in order and returns the first that does not agree; root mean squares in float64, rtol 3e-4."""

from __future__ import annotations

import math
from itertools import product

import numpy as np


def rms(tensor):
    """Return the root mean square."""
    wide = np.asarray(tensor, dtype=np.float64)
    return math.sqrt(np.mean(wide * wide))


def places(reference, candidate):
    """Yield (step, kind, name, rank, expected tensor, found tensor or None, scale)."""
    for step, kind in product(range(len(reference["gradients"])), ("gradients", "parameters")):
        expected = reference[kind][step][0]
        whole = rms(np.concatenate([tensor.ravel() for tensor in expected.values()]))
        if whole == 0 and kind == "gradients":
            raise ValueError("the reference does not train")
        try:
            ranks = candidate[kind][step]
        except IndexError:
            ranks = []
        for name, tensor in expected.items():
            held = [(rank, tensors[name]) for rank, tensors in enumerate(ranks) if name in tensors]
            for rank, found in held or [(0, None)]:
                yield step, kind, name, rank, tensor, found, max(rms(tensor), 0.01 * whole)


def parity(reference, candidate):
    """Return the first place that does not agree."""
    for step, kind, name, rank, expected, found, scale in places(reference, candidate):
        agrees = found is not None and found.shape == expected.shape and rms(found - expected) <= 3e-4 * scale
        if not agrees:
            return {"rank": rank, "name": name, "kind": kind, "step": step}
    return None

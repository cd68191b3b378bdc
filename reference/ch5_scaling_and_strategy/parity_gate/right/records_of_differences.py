"""Collects every difference as a record, largest element against largest element, and returns the least record."""

from __future__ import annotations

import numpy as np


def bound(expected, names):
    """Return what each tensor may differ by, from the largest magnitudes."""
    sizes = {name: float(np.max(np.abs(expected[name]))) for name in names}
    everything = max(sizes.values())
    return {name: 1e-4 * max(size, 0.02 * everything) for name, size in sizes.items()}


def parity(reference, candidate):
    """Compare all, then choose."""
    records = []
    for order, kind in enumerate(["gradients", "parameters"]):
        for step, (expected,) in enumerate(reference[kind]):
            names = list(expected)
            if kind == "gradients" and not any(expected[name].any() for name in names):
                raise ValueError("nothing was trained")
            allowed = bound(expected, names)
            there = candidate[kind][step] if len(candidate[kind]) > step else [{}]
            for position, name in enumerate(names):
                if all(name not in held for held in there):
                    records.append((step, order, position, 0))
                for rank, held in enumerate(there):
                    if name not in held:
                        continue
                    same = held[name].shape == expected[name].shape
                    if not (same and np.max(np.abs(held[name] - expected[name])) < allowed[name]):
                        records.append((step, order, position, rank))
    if not records:
        return None
    step, order, position, rank = min(records)
    kind = ["gradients", "parameters"][order]
    return {"step": step, "kind": kind, "name": list(reference[kind][step][0])[position], "rank": rank}

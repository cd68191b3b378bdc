"""What the pictures of chapter 1 show: plain numbers at any setting of a panel's controls.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings.
"""

from __future__ import annotations

from typing import Any

MOST_WORKERS = 16


def step_time(compute_ms: float, loader_ms: float, added_ms: float, overlap_percent: float) -> dict[str, Any]:
    """Return the parts of a step on 1 to 16 workers: the same global batch, its computation shared out."""
    workers = list(range(1, MOST_WORKERS + 1))
    compute = [compute_ms / k for k in workers]
    seen = added_ms * (1 - overlap_percent / 100)  # what computation does not hide
    communication = [seen * (k - 1) for k in workers]
    step = [a + loader_ms + b for a, b in zip(compute, communication, strict=True)]
    best = [min(range(1, k + 1), key=lambda n: step[n - 1]) for k in workers]
    return {
        "workers": workers,
        "compute": compute,
        "loader": [loader_ms] * len(workers),
        "communication": communication,
        "step": step,
        "speedup": [step[0] / each for each in step],
        "best": best,  # of so many offered
        "seen_ms": seen,
    }

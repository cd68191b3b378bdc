"""What the picture of chapter 2 shows: bytes and time of a layer that is split over t ranks.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings.
Narayanan et al., arXiv 2104.04473, section 3.2: 8 b s h (t - 1)/t elements for each layer and rank.
"""

from __future__ import annotations

from typing import Any

DEGREES = [1, 2, 4, 8, 16, 32]
MLP_DEGREES = [1, 2, 4, 8]


def layer(
    tokens: int, hidden: int, node: int, inside_gb_per_s: float, between_gb_per_s: float, teraflops: float
) -> dict[str, Any]:
    """Return what a rank sends for one layer, forward and backward in 16 bits, and how long the layer takes."""
    activation = 2 * tokens * hidden  # bytes
    sent = [8 * activation * (t - 1) / t for t in DEGREES]
    compute = [72 * tokens * hidden**2 / t / teraflops / 1e9 for t in DEGREES]  # ms
    links = [inside_gb_per_s if t <= node else between_gb_per_s for t in DEGREES]
    communication = [n / link / 1e6 for n, link in zip(sent, links, strict=True)]
    total = [a + b for a, b in zip(compute, communication, strict=True)]
    return {
        "degrees": DEGREES,
        "activation_mb": activation / 1e6,
        "sent_mb": [n / 1e6 for n in sent],
        "compute_ms": compute,
        "communication_ms": communication,
        "total_ms": total,
        "best": DEGREES[total.index(min(total))],
        "small": split_mlp(8, 40, 4),
    }


def split_mlp(rows: int, outputs: int, item_bytes: int) -> dict[str, Any]:
    """Return what a rank of a ring sends for the forward of two matrices, the first cut by columns."""
    whole = rows * outputs * item_bytes
    return {"degrees": MLP_DEGREES, "sent_kb": [2 * (t - 1) / t * whole / 1e3 for t in MLP_DEGREES]}

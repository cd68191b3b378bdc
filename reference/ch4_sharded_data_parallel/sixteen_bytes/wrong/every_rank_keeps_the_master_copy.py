"""Stage 1 shards the moments; the master copy is a copy of the weights and stays whole until stage 3.

Caught by: check_the_published_table
"""

from __future__ import annotations

GB = 10**9
WEIGHT_BYTES = GRADIENT_BYTES = 2  # half precision
MASTER_BYTES = 4  # an update is often smaller than half precision resolves beside its weight
STATE_BYTES = {"sgd": 0, "momentum": 4, "adam": 4 + 4, "adam8bit": 1 + 1}


def optimizer_bytes(name: str) -> int:
    """Return the bytes that an optimizer holds for each parameter: the K of the ZeRO paper, 12 for Adam."""
    return MASTER_BYTES + STATE_BYTES[name]


def model_state_gb(parameters: float, stage: int, ranks: int, optimizer: str = "adam") -> float:
    """Return what each rank holds of weights, gradients and optimizer; a stage of ZeRO shards one more of them."""
    weights, gradients, states = WEIGHT_BYTES, GRADIENT_BYTES, optimizer_bytes(optimizer)
    shared_by = {kind: ranks if stage >= kind else 1 for kind in (1, 2, 3)}
    return (
        parameters
        * (4 / shared_by[3] + (states - 4) / shared_by[1] + gradients / shared_by[2] + weights / shared_by[3])
        / GB
    )


def activation_gb(layers: int, sequence: int, batch: int, hidden: int, heads: int, recompute: str = "none") -> float:
    """Return what a forward pass keeps for the backward pass, softmax and all, unless that is computed again."""
    sbh, scores = sequence * batch * hidden, heads * sequence**2 * batch
    attention, mlp, norms = 11 * sbh, 19 * sbh, 4 * sbh
    kept = {
        "none": attention + 5 * scores + mlp + norms,
        "selective": attention + mlp + norms,
        "full": 2 * sbh,
    }
    return layers * kept[recompute] / GB


def smallest_plan(
    parameters: float, activations_gb: float, budget_gb: float, most_ranks: int, optimizer: str = "adam"
) -> tuple[int, int] | None:
    """Return the smallest stage, and its fewest ranks, that fit into the memory of each rank."""
    for stage in range(4):
        for ranks in range(1, most_ranks + 1):
            # ZeRO divides the model's state; each rank keeps the activations of its own batch.
            if model_state_gb(parameters, stage, ranks, optimizer) + activations_gb <= budget_gb:
                return stage, ranks
    return None

"""Say what training holds in memory, and how far it must be sharded to fit."""

from __future__ import annotations

GB = 10**9
WEIGHT_BYTES = GRADIENT_BYTES = 2  # half precision
STATES = {"sgd": 0, "momentum": 1, "adam": 2, "adam8bit": 2}  # numbers that an optimizer keeps for a parameter


def optimizer_bytes(name: str) -> int:
    """Return the bytes that an optimizer holds for each parameter."""
    return STATES[name] * (1 if name == "adam8bit" else 2)


def model_state_gb(parameters: float, stage: int, ranks: int, optimizer: str = "adam") -> float:
    """Return what each rank holds of weights, gradients and optimizer; a stage of ZeRO shards one more of them."""
    weights, gradients, states = WEIGHT_BYTES, GRADIENT_BYTES, optimizer_bytes(optimizer)
    shared_by = {kind: ranks if stage >= kind else 1 for kind in (1, 2, 3)}
    return parameters * (states / shared_by[1] + gradients / shared_by[2] + weights / shared_by[3]) / GB


def activation_gb(layers: int, sequence: int, batch: int, hidden: int, heads: int, recompute: str = "none") -> float:
    """Return what a forward pass keeps for the backward pass."""
    return layers * 2 * sequence * batch * hidden / GB


def smallest_plan(
    parameters: float, activations_gb: float, budget_gb: float, most_ranks: int, optimizer: str = "adam"
) -> tuple[int, int] | None:
    """Return the smallest stage, and its fewest ranks, that fit into the memory of each rank."""
    for stage in range(4):
        for ranks in range(1, most_ranks + 1):
            if model_state_gb(parameters, stage, ranks, optimizer) <= budget_gb:
                return stage, ranks
    return None


def example() -> None:
    """Plan a model of 7.5 billion parameters, as in the first column of the ZeRO paper's table."""
    print(f"Adam holds {optimizer_bytes('adam'):2} bytes a parameter      the ZeRO paper says 12")
    print(f"7.5 billion parameters, one rank {model_state_gb(7.5e9, 0, 1):6.1f} GB    the ZeRO paper says 120 GB")
    activations_gb = activation_gb(96, 2048, 1, 12288, 96)
    print(f"GPT-3's layers, one sequence     {activations_gb:6.1f} GB    Korthikanti's formula says 275.4 GB")
    plan = smallest_plan(7.5e9, 10.0, 32.0, 64)
    print(f"stage and ranks for 32 GB      {plan}    (2, 15), as 10 GB of it are activations")


if __name__ == "__main__":
    example()

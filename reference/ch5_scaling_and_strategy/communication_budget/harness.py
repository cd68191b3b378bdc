"""Run the experiment of communication_budget."""

from __future__ import annotations

from types import ModuleType


def gigabytes_by_zero_stage(submission: ModuleType, stage: float) -> float:
    """Return the GB that a GPU sends for a billion bfloat16 parameters on 16 GPUs with 8 micro-batches."""
    job = {
        "parameters": 1_000_000_000, "layers": 24, "hidden": 2048, "sequence": 2048,
        "micro_batch": 1, "micro_batches": 8, "data": 16, "tensor": 1, "pipeline": 1, "chunks": 1, "zero": int(stage),
        "parameter_bytes": 2, "gradient_bytes": 2, "activation_bytes": 2,
    }  # fmt: skip
    return round(float(submission.data_parallel_bytes(job)) / 1e9, 3)

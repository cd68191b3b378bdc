"""Run a submission of choose_strategy where a check or the experiment needs many calls."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def measured(submission: ModuleType, job: Any, cluster: Any, plans: list[Any]) -> list[list[float]]:
    """Return memory and time of each plan."""
    return [[submission.memory_bytes(job, plan), submission.step_s(job, cluster, plan)] for plan in plans]


def chosen(submission: ModuleType, cases: list[Any]) -> list[Any]:
    """Return the plan for each job and cluster, or "refused" where that is a ValueError."""
    answers: list[Any] = []
    for job, cluster in cases:
        try:
            answers.append(submission.choose(job, cluster))
        except ValueError:
            answers.append("refused")
    return answers


def named(submission: ModuleType, cases: list[Any]) -> list[Any]:
    """Return the bottleneck of each job and cluster."""
    return [submission.bottleneck(job, cluster) for job, cluster in cases]


def tensor_degree_on_equal_links(submission: ModuleType, gigabytes_per_s: float) -> int:
    """Return the tensor-parallel degree chosen for 39 billion parameters if both links are so fast."""
    job = {"layers": 48, "hidden": 8192, "heads": 64, "vocabulary": 51200, "sequence": 2048, "batch": 1536}
    cluster = {
        "gpus": 512, "gpus_per_node": 8, "memory_bytes": 80e9, "flops_per_s": 140e12, "layer_s": 1e-4,
        "inside_bytes_per_s": gigabytes_per_s * 1e9, "between_bytes_per_s": gigabytes_per_s * 1e9,
    }  # fmt: skip
    return int(submission.choose(job | {"zero_stages": [0]}, cluster)["tensor"])

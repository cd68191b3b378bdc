"""Cut a model into pipeline stages, one for each rank, and predict how fast they train."""

from __future__ import annotations

from collections.abc import Sequence


def split(seconds: Sequence[float], size_bytes: Sequence[int], n_stages: int, cap_bytes: int) -> list[int]:
    """Return how many pieces of the model each stage gets, from front to back.

    `seconds[i]` and `size_bytes[i]` are time and memory of piece i: the embedding, the layers, the head. No stage may
    hold more than `cap_bytes`.
    """
    n_layers = len(seconds) - 2
    counts = [n_layers // n_stages + (stage < n_layers % n_stages) for stage in range(n_stages)]
    counts[0] += 1  # the embedding
    counts[-1] += 1  # the head
    if max(sum_by_stage(size_bytes, counts)) > cap_bytes:
        raise ValueError("A stage does not fit. Use more stages.")
    return counts


def throughput(seconds: Sequence[float], counts: Sequence[int]) -> float:
    """Return how many micro-batches a second leave the pipeline once it is full."""
    return len(counts) / sum(seconds)


def sum_by_stage(values: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Return the sum over each stage's pieces."""
    ends = [sum(counts[: stage + 1]) for stage in range(len(counts))]
    return [sum(values[end - count : end]) for end, count in zip(ends, counts, strict=True)]


# Qwen3-32B, one decoding step on H20: fitted to the stage times in https://github.com/ai-dynamo/aiconfigurator/pull/1459
EMBEDDING_S, LAYER_S, HEAD_S = 0.003e-3, 3.150e-3 / 8, 0.751e-3
SECONDS = [EMBEDDING_S, *[LAYER_S] * 64, HEAD_S]


def example() -> None:
    """Cut the model of the story for eight ranks."""
    counts = split(SECONDS, [0] * len(SECONDS), n_stages=8, cap_bytes=0)
    stage_s = sum_by_stage(SECONDS, counts)
    print(f"pieces of each stage        {counts}")
    print(f"throughput                  {throughput(SECONDS, counts):5.1f} a second")
    print(f"what its slowest stage lets through  {1 / max(stage_s):5.1f} a second")
    print(f"slowest stage  {max(stage_s) * 1e3:.3f} ms, and another split has 3.544 ms")


if __name__ == "__main__":
    example()

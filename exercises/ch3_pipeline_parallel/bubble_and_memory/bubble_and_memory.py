"""Plan a pipeline: how long its ranks idle in a step, and how many activations they hold."""

from __future__ import annotations

from itertools import count
from typing import TypedDict


class Times(TypedDict):
    """Seconds that one micro-batch takes in one stage."""

    forward_s: float
    input_s: float  # backward: the gradient of the stage's input
    weight_s: float  # backward: the gradient of its weights


class Shape(TypedDict):
    """Sizes of a transformer layer and what passes through it."""

    sequence: int
    micro_batch: int
    hidden: int
    heads: int


def bubble_s(schedule: str, ranks: int, times: Times, chunks: int = 1) -> float:
    """Return how long each rank idles in one step."""
    forward_s, input_s, weight_s = times["forward_s"], times["input_s"], times["weight_s"]
    idle_s = {
        "gpipe": forward_s + input_s + weight_s,  # fills with forwards, drains with backwards
        "1f1b": forward_s,  # fills; from then on a backward follows every forward, so nothing is left to drain
        "interleaved": forward_s / chunks,
        "zb-h1": forward_s + input_s - weight_s,
        "zb-h2": forward_s + input_s - 2 * weight_s,
    }
    return (ranks - 1) * idle_s[schedule]


def bubble_over_ideal(schedule: str, ranks: int, micro_batches: int, times: Times, chunks: int = 1) -> float:
    """Return the bubble as a share of the step without it."""
    return bubble_s(schedule, ranks, times, chunks) / (micro_batches * work_s(times))


def bubble_over_total(schedule: str, ranks: int, micro_batches: int, times: Times, chunks: int = 1) -> float:
    """Return the bubble as a share of the whole step, bubble included."""
    idle_s = bubble_s(schedule, ranks, times, chunks)
    return idle_s / (idle_s + micro_batches * work_s(times))


def work_s(times: Times) -> float:
    """Return the seconds of work that one micro-batch is for one rank."""
    return times["forward_s"] + times["input_s"] + times["weight_s"]


def micro_batches_for(target: float, schedule: str, ranks: int, times: Times, chunks: int = 1) -> int:
    """Return the fewest micro-batches with which the bubble is at most `target` of the whole step."""
    step = ranks if schedule == "interleaved" else 1  # chunks take turns in groups of as many micro-batches as ranks
    numbers = count(step, step)
    return next(m for m in numbers if bubble_over_total(schedule, ranks, m, times, chunks) <= target)


def peak_in_flight(schedule: str, rank: int, ranks: int, micro_batches: int, chunks: int = 1) -> int:
    """Return for how many micro-batches (interleaved: chunks) a rank holds activations at the same time."""
    if not 0 <= rank < ranks:
        raise ValueError(f"There is no rank {rank} among {ranks}.")
    held = {
        "gpipe": micro_batches,
        "1f1b": micro_batches,  # the same: a backward needs the activations of its forward
        "interleaved": micro_batches * chunks,
        "zb-h1": ranks,
        "zb-h2": 2 * ranks - 1,
    }
    return min(held[schedule], micro_batches * chunks)


def layer_bytes(shape: Shape, tensor_parallel: int, sequence_parallel: bool, recompute: str) -> float:
    """Return the bytes of activations that one layer keeps of one micro-batch, in 16-bit training."""
    sbh = shape["sequence"] * shape["micro_batch"] * shape["hidden"]
    scores = 5 * shape["heads"] * shape["sequence"] / shape["hidden"]
    if recompute == "full":
        return 2 * sbh  # the layer's input
    if recompute == "selective":
        scores = 0  # computed again in backward
    alike = 10 / tensor_parallel if sequence_parallel else 10  # norms and dropouts, the same on all ranks without it
    return sbh * (alike + (24 + scores) / tensor_parallel)


def stage_bytes(
    schedule: str, rank: int, ranks: int, micro_batches: int, layers: int, bytes_of_layer: float, chunks: int = 1
) -> float:
    """Return the bytes of activations that a rank holds at its peak; `layers` is the whole model's number."""
    layers_of_chunk = layers / (ranks * chunks)
    return peak_in_flight(schedule, rank, ranks, micro_batches, chunks) * layers_of_chunk * bytes_of_layer


def example() -> None:
    """Plan a step of eight micro-batches on four ranks."""
    times = Times(forward_s=1e-3, input_s=1e-3, weight_s=1e-3)
    work_ms = 8 * work_s(times) * 1e3
    step_ms = work_ms + bubble_s("1f1b", 4, times) * 1e3
    first_ms, last_ms = 3 * times["forward_s"] * 1e3, 3 * (times["input_s"] + times["weight_s"]) * 1e3
    least_ms = first_ms + work_ms + last_ms
    print(f"1f1b, a whole step:        {step_ms:4.1f} ms")
    print(f"  what rank 3 alone needs: {first_ms:4.1f} ms until its first input comes, {work_ms:.1f} ms of work,")
    print(f"                           {last_ms:4.1f} ms until rank 0 has used its last gradient: {least_ms:.1f} ms")
    print(f"1f1b, micro-batches that rank 3 holds at most: {peak_in_flight('1f1b', 3, 4, 8)}")
    print("  what it does:            3F0 3B0 3F1 3B1 ... needs 1 at a time")


if __name__ == "__main__":
    example()

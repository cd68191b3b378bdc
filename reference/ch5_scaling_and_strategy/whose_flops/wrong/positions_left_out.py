"""Learned positions are no parameters of the model proper.

Caught by: check_every_matrix_product_counts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

Recompute = Literal["none", "selective", "full"]


class Model(TypedDict):
    """The sizes of a GPT: l, h, V and s of the literature."""

    layers: int
    hidden: int
    vocabulary: int
    sequence: int


class Layout(TypedDict):
    """How a model and its data are spread."""

    gpus: int
    tensor: int
    pipeline: int
    context: int


class Gpu(TypedDict):
    """What a data sheet says."""

    printed_flops_per_s: float
    with_sparsity: bool


class Run(TypedDict):
    """A training step as it was measured."""

    model: Model
    n_sequences: int  # of all GPUs together
    recompute: Recompute
    step_s: float
    gpus: int
    gpu: Gpu


class Utilization(TypedDict):
    """Shares of the peak."""

    mfu: float
    hfu: float


def parameters(model: Model) -> float:
    """Count weights, biases, layer norms and both embeddings (equation 2 of the Megatron-LM paper)."""
    h, layers = model["hidden"], model["layers"]
    return 12 * layers * h**2 * (1 + 13 / (12 * h) + model["vocabulary"] / (4 * layers * h))


def _forward(model: Model, n_sequences: int) -> tuple[float, float, float]:
    """Return the FLOPs of a forward: products with a layer's weights, of attention, and the logits."""
    h, s = model["hidden"], model["sequence"]
    layers, tokens = model["layers"], n_sequences * s
    return 24 * tokens * layers * h**2, 4 * tokens * layers * s * h, 2 * tokens * h * model["vocabulary"]


def model_flops(model: Model, n_sequences: int) -> float:
    """Count the FLOPs that training on so many sequences needs."""
    return 3 * sum(_forward(model, n_sequences))


def hardware_flops(model: Model, n_sequences: int, recompute: Recompute) -> float:
    """Count the FLOPs that are carried out, those of recomputed activations included."""
    weights, attention, _ = _forward(model, n_sequences)
    # Equation 8 doubles attention. One forward of it more would be `attention`; the published ratios follow the paper.
    again = {"none": 0.0, "selective": 3 * attention, "full": weights + attention}
    return model_flops(model, n_sequences) + again[recompute]


def tokens_per_step(lengths: Sequence[int], layout: Layout) -> int:
    """Count the tokens that one step of all GPUs trains on, where one replica has sequences of these lengths."""
    replicas = layout["gpus"] // (layout["tensor"] * layout["pipeline"] * layout["context"])
    return sum(lengths) * replicas


def share_of_peak(flops_per_s: float, gpu: Gpu) -> float:
    """Return which share of its peak a GPU reaches."""
    dense = gpu["printed_flops_per_s"] / (2 if gpu["with_sparsity"] else 1)
    if flops_per_s > dense:
        raise ValueError(f"{flops_per_s / dense:.0%} of the peak: check FLOPs, tokens, GPUs and the clock.")
    return flops_per_s / dense


def utilization(run: Run) -> Utilization:
    """Return the utilization of the hardware by the model, and by all that it carries out."""
    needed = model_flops(run["model"], run["n_sequences"])
    done = hardware_flops(run["model"], run["n_sequences"], run["recompute"])
    gpu_s = run["step_s"] * run["gpus"]
    return Utilization(mfu=share_of_peak(needed / gpu_s, run["gpu"]), hfu=share_of_peak(done / gpu_s, run["gpu"]))


def training_days(model: Model, tokens: float, gpus: int, flops_per_s: float, recompute: Recompute) -> float:
    """Return the days that so many tokens take, where each GPU carries out `flops_per_s`."""
    return tokens / model["sequence"] * hardware_flops(model, 1, recompute) / (gpus * flops_per_s) / 86400

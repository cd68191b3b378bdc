"""Count the arithmetic and the tokens of a training step, and say how much of the hardware it uses."""

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
    return 12 * layers * h**2 * (1 + 13 / (12 * h) + (model["vocabulary"] + model["sequence"]) / (12 * layers * h))


def model_flops(model: Model, n_sequences: int) -> float:
    """Count the FLOPs that training on so many sequences needs."""
    return 6 * parameters(model) * n_sequences * model["sequence"]


def hardware_flops(model: Model, n_sequences: int, recompute: Recompute) -> float:
    """Count the FLOPs that are carried out, those of recomputed activations included."""
    per_parameter = 8 if recompute == "full" else 6
    return per_parameter * parameters(model) * n_sequences * model["sequence"]


def tokens_per_step(lengths: Sequence[int], layout: Layout) -> int:
    """Count the tokens that one step of all GPUs trains on, where one replica has sequences of these lengths."""
    return max(lengths) * len(lengths) * layout["gpus"]


def share_of_peak(flops_per_s: float, gpu: Gpu) -> float:
    """Return which share of its peak a GPU reaches."""
    return flops_per_s / gpu["printed_flops_per_s"]


def utilization(run: Run) -> Utilization:
    """Return the utilization of the hardware by the model, and by all that it carries out."""
    done = hardware_flops(run["model"], run["n_sequences"], run["recompute"])
    share = share_of_peak(done / (run["step_s"] * run["gpus"]), run["gpu"])
    return Utilization(mfu=share, hfu=share)


def training_days(model: Model, tokens: float, gpus: int, flops_per_s: float, recompute: Recompute) -> float:
    """Return the days that so many tokens take, where each GPU carries out `flops_per_s`."""
    return tokens / model["sequence"] * hardware_flops(model, 1, recompute) / (gpus * flops_per_s) / 86400


GPT_SMALL = Model(layers=24, hidden=2304, vocabulary=51200, sequence=2048)  # 1.7 billion parameters
A100 = Gpu(printed_flops_per_s=624e12, with_sparsity=True)
H100 = Gpu(printed_flops_per_s=1979e12, with_sparsity=True)
LLAMA_3 = Layout(gpus=8192, tensor=8, pipeline=16, context=1)


def example() -> None:
    """Compare with rows of the tables of Megatron-LM (2021) and Llama 3 (2024)."""
    step = Run(model=GPT_SMALL, n_sequences=512, recompute="full", step_s=3.528, gpus=32, gpu=A100)
    petaflops, shares = model_flops(GPT_SMALL, 512) / 1e15, utilization(step)
    print(f"{parameters(GPT_SMALL) / 1e9:8.2f} billion parameters   table: 1.7")
    print(f"{petaflops:8.2f} PFLOP for a step       all its matrix products: 11.79")
    print(f"{shares['hfu']:8.1%} HFU, {shares['mfu']:.1%} MFU       table: 44 % of the peak, all layers recomputed")
    print(f"{tokens_per_step([8192] * 32, LLAMA_3) / 1e6:8.1f} million tokens       table: 16 million, Llama 3")
    print(f"{share_of_peak(430e12, H100):8.1%} of the peak         table: 43 % for 430 TFLOP/s on an H100")


if __name__ == "__main__":
    example()

"""Claims that the references of chapter 5 agree with independent implementations: torch's counter of FLOPs first."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

REFERENCE = Path(__file__).parents[1] / "reference" / "ch5_scaling_and_strategy"


def reference(slug: str, file: str = "") -> ModuleType:
    """Load a reference, or the harness beside it, by its path."""
    spec = importlib.util.spec_from_file_location(f"{slug}_{file}", REFERENCE / slug / f"{file or slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Layer(nn.Module):
    """A layer of a GPT whose matrix products are all written out."""

    def __init__(self, hidden: int, heads: int) -> None:
        """Make the four matrices."""
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norms = nn.ModuleList([nn.LayerNorm(hidden), nn.LayerNorm(hidden)])

    def forward(self, x: Tensor) -> Tensor:
        """Attend without a fused kernel, which the counter would not see, then the MLP."""
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        weights = torch.softmax(q @ k.mT, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        y: Tensor = x + self.down(torch.relu(self.up(self.norms[1](x))))
        return y


class Gpt(nn.Module):
    """Embeddings, layers, logits by the embedding's own matrix."""

    def __init__(self, layers: int, hidden: int, vocabulary: int, sequence: int) -> None:
        """Make layers with two heads."""
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.layers = nn.ModuleList([Layer(hidden, 2) for _ in range(layers)])

    def forward(self, tokens: Tensor, recompute: bool) -> Tensor:
        """Return logits; recomputed layers keep their inputs only."""
        x = self.words(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if recompute else layer(x)
        logits: Tensor = x @ self.words.weight.T
        return logits


def counted(model: Gpt, tokens: Tensor, recompute: bool) -> int:
    """Return the FLOPs of forward and backward by torch's counter."""
    with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
        model(tokens, recompute).sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("sizes", [(2, 16, 50, 12), (3, 8, 7, 40), (1, 32, 100, 5)])
def test_whose_flops_are_those_that_torch_counts(sizes: tuple[int, int, int, int]) -> None:
    """To the last one, with and without recomputation, and by the published closed form."""
    layers, h, v, s = sizes
    module, b = reference("whose_flops"), 3
    model = {"layers": layers, "hidden": h, "vocabulary": v, "sequence": s}
    gpt, tokens = Gpt(layers, h, v, s), torch.randint(v, (b, s))
    assert module.model_flops(model, b) == counted(gpt, tokens, recompute=False)
    assert module.hardware_flops(model, b, "none") == counted(gpt, tokens, recompute=False)
    assert module.hardware_flops(model, b, "full") == counted(gpt, tokens, recompute=True)
    closed = 72 * b * s * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))
    assert module.model_flops(model, b) == pytest.approx(closed, rel=1e-14)


def test_whose_flops_parameters_are_those_of_a_module() -> None:
    """Equation 2 but for the final layer norm, which it leaves out and which this module has not."""
    layers, h, v, s = 3, 16, 50, 12
    expected = sum(parameter.numel() for parameter in Gpt(layers, h, v, s).parameters())
    model = {"layers": layers, "hidden": h, "vocabulary": v, "sequence": s}
    assert reference("whose_flops").parameters(model) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fit_in_log_space_needs_the_sum(seed: int) -> None:
    """On the harness's starts the sum recovers a known exponent to 0.02, and the mean falls short by more than 0.04."""
    module, harness = reference("fit_in_log_space"), reference("fit_in_log_space", "harness")
    summed, averaged = (harness.exponent(module, seed, divisor=divisor)[0] for divisor in (1.0, 240.0))
    assert abs(summed - 0.3658 / (0.3478 + 0.3658)) < 0.02
    assert averaged < summed - 0.04


def test_fit_in_log_space_has_the_gradient_that_torch_finds() -> None:
    """By automatic differentiation of Huber's loss, to 1e-10."""
    module, harness = reference("fit_in_log_space"), reference("fit_in_log_space", "harness")
    runs = harness.made_up(3, n_outliers=5)
    n, d, loss = (torch.tensor(runs[key]).log() for key in ("parameters", "tokens", "loss"))
    theta = torch.tensor([6.0, 7.5, 0.55, 0.34, 0.37], dtype=torch.float64, requires_grad=True)
    terms = torch.stack([theta[0] - theta[3] * n, theta[1] - theta[4] * d, theta[2].expand_as(n)])
    expected = nn.functional.huber_loss(terms.logsumexp(dim=0), loss, reduction="sum", delta=1e-3)
    expected.backward()
    value, gradient = module.objective(theta.detach().numpy(), runs)
    assert value == pytest.approx(expected.item(), rel=1e-10)
    assert theta.grad is not None
    assert gradient == pytest.approx(theta.grad.numpy(), rel=1e-10)


def test_useful_batch_finds_the_noise_scale_of_known_gradients() -> None:
    """Of a Gaussian model with |G|^2 = 1 and tr(Sigma) = 48, to 5 %, from steps of which single ones say nonsense."""
    rng = np.random.default_rng(0)
    norms = {
        batch: ((0.25 + rng.normal(size=(20_000, 16)) * (3 / batch) ** 0.5) ** 2).sum(axis=1).tolist()
        for batch in (8, 64)
    }
    assert reference("useful_batch").noise_scale(norms[8], norms[64], 8, 64) == pytest.approx(48, rel=0.05)


def test_spend_compute_is_the_numerical_minimum() -> None:
    """Of the law along 6ND = C, on a fine grid of sizes."""
    module = reference("spend_compute")
    law = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
    for compute in (1e19, 5.76e23):
        sizes = np.geomspace(1e7, 1e12, 200_001)
        best = sizes[np.argmin(law["A"] / sizes ** law["alpha"] + law["B"] / (compute / 6 / sizes) ** law["beta"])]
        assert module.optimal(law, compute)["parameters"] == pytest.approx(best, rel=1e-3)


def test_choose_strategy_keeps_the_table_s_activation_bytes() -> None:
    """Of a GPT-3 layer: 34 + 80 bytes for each of sbh whole, 34 with selective, 2 with full recomputation."""
    module = reference("choose_strategy")
    sizes = {
        "layers": 1,
        "hidden": 12288,
        "heads": 96,
        "vocabulary": 0,
        "sequence": 2048,
        "batch": 1,
        "zero_stages": [0],
    }
    state, sbh = 16 * 12 * 12288**2, 2048 * 12288
    for recompute, per_sbh in (("none", 34 + 80), ("selective", 34), ("full", 2 + 34 + 80)):
        plan = {"data": 1, "tensor": 1, "pipeline": 1, "zero": 0, "micro_batch": 1, "recompute": recompute}
        assert module.memory_bytes(sizes, plan) == pytest.approx(state + sbh * per_sbh, rel=1e-12)

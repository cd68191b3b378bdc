"""Claims that the references of chapter 5 agree with independent implementations: torch's counter of FLOPs first."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

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

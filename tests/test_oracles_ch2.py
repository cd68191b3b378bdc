"""Claims that the references of chapter 2 agree with torch: tensor-parallel styles, loss_parallel, plain attention."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

from rank_pump import Program, run

REFERENCE = Path(__file__).parents[1] / "reference" / "ch2_tensor_parallel"
TOKENS, FEATURES, HIDDEN, OUTPUTS = 6, 4, 12, 4


def reference(slug: str) -> ModuleType:
    """Load a reference by its path."""
    spec = importlib.util.spec_from_file_location(f"reference_{slug}", REFERENCE / slug / f"{slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(*shape: int, seed: int = 0) -> Tensor:
    """Return random float64 numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layers() -> Any:
    """Return two layers with GELU between them, the same on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN, bias=False), nn.GELU(), nn.Linear(HIDDEN, OUTPUTS)).double()


def parallel_layers(world_size: int) -> Any:
    """Return the two layers, split by torch."""
    mesh = init_device_mesh("cpu", (world_size,))
    return parallelize_module(layers(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def full(tensor: Tensor | None) -> Tensor:
    """Return the whole of a gradient, wherever its parts are."""
    assert tensor is not None
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def assert_agree(program: Program, world_size: int) -> None:
    """Run on real ranks a program that returns (ours, torch's) and compare the two on every rank."""
    for rank, value in enumerate(run(program, world_size, "gloo").values):
        assert not isinstance(value, str), f"rank {rank}: {value}"
        ours, theirs = value
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max(), err_msg=f"rank {rank}")


@pytest.mark.parametrize("world_size", [2, 3])
def test_column_then_row_is_colwise_then_rowwise(world_size: int) -> None:
    """The layer's output, and its pieces."""
    ours = reference("column_then_row")

    def program(rank: int, size: int) -> Any:
        x, torchs = drawn(TOKENS, FEATURES), parallel_layers(size)
        a, b = layers()[0].weight.T, layers()[2].weight.T
        pieces = ours.shard(a.detach(), b.detach(), rank, size)
        theirs = [torchs[0].weight.to_local().T, torchs[2].weight.to_local().T]
        with torch.no_grad():
            torchs[2].bias.zero_()
            return [*pieces, ours.mlp(x, *pieces, dist.group.WORLD)], [*(t.detach() for t in theirs), torchs(x)]

    assert_agree(program, world_size)


@pytest.mark.parametrize("world_size", [2, 3])
def test_operators_and_bias_have_the_gradients_of_torchs_tensor_parallel_layers(world_size: int) -> None:
    """Gradients of input, both weights and the bias of f, column-parallel, gelu, row-parallel with bias."""
    operators, bias_once = reference("conjugate_operators"), reference("bias_once")

    def program(rank: int, size: int) -> Any:
        whole, torchs = layers(), parallel_layers(size)
        xs = [drawn(TOKENS, FEATURES).requires_grad_() for _ in range(2)]
        a = whole[0].weight.detach().chunk(size)[rank].requires_grad_()
        b = whole[2].weight.detach().chunk(size, dim=1)[rank].requires_grad_()
        bias = whole[2].bias
        hidden = functional.gelu(operators.copy_to_group(xs[0], dist.group.WORLD) @ a.T)
        ours = bias_once.row_parallel(hidden, b, bias, dist.group.WORLD)
        (ours * drawn(TOKENS, OUTPUTS, seed=1)).sum().backward()
        theirs = torchs(xs[1])
        (theirs * drawn(TOKENS, OUTPUTS, seed=1)).sum().backward()
        local = [parameter.grad.to_local() for parameter in torchs.parameters()]
        return [ours.detach(), xs[0].grad, a.grad, b.grad, bias.grad], [theirs.detach(), full(xs[1].grad), *local]

    assert_agree(program, world_size)


def test_a_block_between_f_and_g_equals_one_process() -> None:
    """Forward and backward of f, two matrices and g, against one process."""
    operators = reference("conjugate_operators")

    def program(rank: int, size: int) -> Any:
        x, y = (drawn(TOKENS, FEATURES).requires_grad_() for _ in range(2))
        a, b = drawn(FEATURES, HIDDEN, seed=1), drawn(HIDDEN, OUTPUTS, seed=2)
        mine = a.chunk(size, dim=1)[rank], b.chunk(size)[rank]
        inside = torch.tanh(operators.copy_to_group(x, dist.group.WORLD) @ mine[0]) @ mine[1]
        ours = operators.reduce_from_group(inside, dist.group.WORLD)
        theirs = torch.tanh(y @ a) @ b
        for output in (ours, theirs):
            output.square().sum().backward()
        return [ours.detach(), x.grad], [theirs.detach(), y.grad]

    assert_agree(program, 4)


@pytest.mark.parametrize("world_size", [2, 3])
def test_split_vocabulary_loss_is_loss_parallel(world_size: int) -> None:
    """Loss and gradient, with tokens that do not count, against loss_parallel and plain cross-entropy."""
    cross_entropy = reference("split_vocabulary_loss").cross_entropy
    labels = torch.tensor([0, 11, -100, 5, 7, 3])

    def program(rank: int, size: int) -> Any:
        logits = drawn(TOKENS, 12)
        mine = logits.chunk(size, dim=1)[rank].clone().requires_grad_()
        ours = cross_entropy(mine, labels, dist.group.WORLD)
        ours.backward()
        mesh = init_device_mesh("cpu", (size,))
        split: Any = distribute_tensor(logits, mesh, [Shard(1)]).requires_grad_()
        with loss_parallel():
            theirs: Any = functional.cross_entropy(split, distribute_tensor(labels, mesh, [Replicate()]))
            theirs.backward()
        plain = functional.cross_entropy(logits, labels)
        gradient = split.grad.to_local()
        return [ours.detach(), mine.grad, ours.detach()], [full(theirs.detach()), gradient, plain]

    assert_agree(program, world_size)


@pytest.mark.parametrize(("n_heads", "n_kv_heads", "world_size"), [(4, 4, 2), (6, 3, 3), (4, 2, 4), (6, 1, 3)])
def test_cut_heads_attend_and_learn_as_torchs_attention(n_heads: int, n_kv_heads: int, world_size: int) -> None:
    """The ranks' outputs side by side, and the merged gradients after the K/V heads were synchronised."""
    ours = reference("cut_heads")
    head_dim = 3
    weight = drawn((n_heads + 2 * n_kv_heads) * head_dim, FEATURES)
    x, slope = drawn(5, FEATURES, seed=1), drawn(5, n_heads * head_dim, seed=2)

    whole: Any = weight.clone().requires_grad_()
    q, k, v = (x @ whole.T).unflatten(1, (-1, head_dim)).transpose(0, 1).split([n_heads, n_kv_heads, n_kv_heads])
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected: Any = attended.transpose(0, 1).flatten(1)
    (expected * slope).sum().backward()

    def program(rank: int, size: int) -> Any:
        shard: Any = ours.shard_qkv(weight, n_heads, n_kv_heads, rank, size).requires_grad_()
        output = ours.attention(x, shard, n_heads // size, max(1, n_kv_heads // size))
        (output * slope.chunk(size, dim=1)[rank]).sum().backward()
        gradient = ours.sync_kv_gradient(shard.grad, n_heads, n_kv_heads, dist.group.WORLD)
        gradients = [torch.empty_like(gradient) for _ in range(size)]
        dist.all_gather(gradients, gradient)
        merged = ours.merge_qkv(gradients, n_heads, n_kv_heads)
        return [output.detach(), merged], [expected.detach().chunk(size, dim=1)[rank], whole.grad]

    assert_agree(program, world_size)


def test_sequence_parallel_norms_have_the_gradients_of_torchs_sequence_parallel() -> None:
    """Norm, both matrices and the last bias, whose gradients torch keeps as partial sums until they are asked for."""
    ours = reference("sequence_parallel_norms")

    class Torchs(nn.Module):
        """The block without residual and positions, for torch to split."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.norm = nn.LayerNorm(FEATURES)
            self.up = nn.Linear(FEATURES, HIDDEN, bias=False)
            self.down = nn.Linear(HIDDEN, FEATURES)
            nn.init.normal_(self.norm.weight)
            nn.init.normal_(self.norm.bias)
            self.double()

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.down(functional.relu(self.up(self.norm(x))))
            return output

    def program(rank: int, size: int) -> Any:
        whole: Any = Torchs()
        torchs: Any = Torchs()
        x = drawn(1, TOKENS, FEATURES)
        mine = x.chunk(size, dim=1)[rank]
        plan = {
            "norm": SequenceParallel(),
            "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
        mesh = init_device_mesh("cpu", (size,))
        parallelize_module(torchs, mesh, plan)
        parallelize_module(torchs.up, mesh, ColwiseParallel())
        (torchs(mine) + mine).square().sum().backward()

        tensors = {"positions": torch.zeros(TOKENS, FEATURES, dtype=torch.float64), "bias": whole.down.bias}
        tensors |= {"scale": whole.norm.weight, "shift": whole.norm.bias}
        tensors |= {"up": whole.up.weight.chunk(size)[rank].T, "down": whole.down.weight.T.chunk(size)[rank]}
        copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        block = ours.Block(copies, dist.group.WORLD)
        block(mine[0]).square().sum().backward()
        alone = [dist.new_group([member]) for member in range(size)][rank]
        ours.sync_gradients(block, alone)
        theirs = [full(p.grad) for p in (torchs.norm.weight, torchs.norm.bias, torchs.down.bias)]
        pieces = [torchs.up.weight.grad.to_local().T, torchs.down.weight.grad.to_local().T]
        found = [getattr(block, name).grad for name in ("scale", "shift", "bias", "up", "down")]
        return found, [*theirs, *pieces]

    assert_agree(program, 2)


def test_parallel_init_is_xavier_normal_of_the_whole_weight() -> None:
    """Number by number, whatever the cut."""
    init_shard = reference("parallel_init").init_shard
    expected = nn.init.xavier_normal_(torch.empty(12, 24), generator=torch.Generator().manual_seed(5))
    for dim in (0, 1):
        for world_size in (1, 2, 3, 4):
            pieces = [init_shard((12, 24), dim, 5, rank, world_size) for rank in range(world_size)]
            assert torch.equal(torch.cat(pieces, dim=dim), expected)

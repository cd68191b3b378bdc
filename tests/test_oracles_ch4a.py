"""Claims that references of chapter 4 agree with torch: ZeroRedundancyOptimizer, fully_shard, hybrid sharding."""

from __future__ import annotations

import importlib.util
import warnings
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from rank_pump import Program, run

with warnings.catch_warnings():  # torch's own use of what torch deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch.distributed.optim import ZeroRedundancyOptimizer

REFERENCE = Path(__file__).parents[1] / "reference" / "ch4_sharded_data_parallel"


def reference(slug: str) -> ModuleType:
    """Load a reference by its path."""
    spec = importlib.util.spec_from_file_location(f"reference_{slug}", REFERENCE / slug / f"{slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(seed: int, *shape: int) -> Tensor:
    """Return random float64 numbers that depend on the seed alone."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_agree(program: Program, world_size: int) -> None:
    """Run on real ranks a program that returns (ours, torch's) and compare the two on every rank."""
    for rank, value in enumerate(run(program, world_size, "gloo").values):
        assert not isinstance(value, str), f"rank {rank}: {value}"
        for one, other in zip(*value, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max(), err_msg=f"rank {rank}")


@pytest.mark.parametrize("world_size", [2, 4])
def test_sharded_adamw_is_the_zero_redundancy_optimizer(world_size: int) -> None:
    """Five steps with gradients that change."""
    sharded_adamw = reference("sharded_optimizer").ShardedAdamW

    def program(_rank: int, _size: int) -> Any:
        ours, theirs = ([nn.Parameter(drawn(n, n)) for n in (400, 25, 16)] for _ in range(2))
        mine = sharded_adamw(ours, dist.group.WORLD, lr=0.01, weight_decay=0.1)
        torchs = ZeroRedundancyOptimizer(theirs, torch.optim.AdamW, lr=0.01, weight_decay=0.1)
        for step in range(5):
            for one, other in zip(ours, theirs, strict=True):
                one.grad, other.grad = (drawn(1000 + step, one.numel()) for _ in range(2))
            mine.step()
            torchs.step()
        return [p.detach() for p in ours], [p.detach() for p in theirs]

    assert_agree(program, world_size)


@pytest.mark.parametrize(("replicas", "shards"), [(1, 2), (2, 2)])
def test_mean_shards_are_the_gradients_of_fully_shard(replicas: int, shards: int) -> None:
    """With hybrid sharding too; a weight of 4 rows is sharded by rows, so flat shards are the same elements."""
    mean_shard = reference("reduce_scatter_scale").mean_shard

    def program(rank: int, _: int) -> Any:
        mesh = init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("replicate", "shard"))
        plain, sharded = (nn.Linear(3, 4, bias=False, dtype=torch.float64) for _ in range(2))
        with torch.no_grad():
            for layer in (plain, sharded):
                layer.weight.copy_(drawn(0, 4, 3))
        fully_shard(sharded, mesh=mesh if replicas > 1 else mesh["shard"])
        x = drawn(rank + 1, 2, 3)
        for layer in (plain, sharded):
            layer(x).square().mean().backward()
        assert plain.weight.grad is not None
        ours = mean_shard(plain.weight.grad.reshape(-1), mesh.get_group("shard"), mesh.get_group("replicate"))
        return [ours], [sharded.weight.grad.to_local().reshape(-1)]  # type: ignore[union-attr]  # a DTensor

    assert_agree(program, replicas * shards)


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_sharded_model_trains_as_fully_shard_does(world_size: int) -> None:
    """Three SGD steps of tanh layers, each a unit, compared by the outputs."""
    gather_use_free = reference("gather_use_free")
    widths = (3, 4, 2)

    class Layer:
        """Compute tanh(x W) with a flat weight."""

        def __init__(self, rows: int, columns: int) -> None:
            self.shape, self.size = (rows, columns), rows * columns

        def forward(self, weight: Tensor, x: Tensor) -> Tensor:
            return torch.tanh(x @ weight.view(self.shape))

        def backward(self, weight: Tensor, x: Tensor, dy: Tensor) -> tuple[Tensor, Tensor]:
            dz = dy * (1 - self.forward(weight, x) ** 2)
            return dz @ weight.view(self.shape).T, (x.T @ dz).view(-1)

    def program(rank: int, size: int) -> Any:
        shapes = list(pairwise(widths))
        weights = [drawn(i, rows * columns) for i, (rows, columns) in enumerate(shapes)]
        ours = gather_use_free.ShardedModel([Layer(*shape) for shape in shapes], weights, dist.group.WORLD)
        layers: list[nn.Module] = []
        for (rows, columns), weight in zip(shapes, weights, strict=True):
            layer = nn.Linear(rows, columns, bias=False, dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(weight.view(rows, columns).T)
            layers += [layer, nn.Tanh()]
        theirs, mesh = nn.Sequential(*layers), init_device_mesh("cpu", (size,))
        for layer in layers[::2]:
            fully_shard(layer, mesh=mesh)
        fully_shard(theirs, mesh=mesh)
        sgd, outputs = torch.optim.SGD(theirs.parameters(), lr=0.1), ([], [])
        for step in range(3):
            x = drawn(100 * step + rank, 2, 3)
            outputs[0].append(ours.step(x, torch.clone, 0.1))
            y = theirs(x)
            (y.square().sum() / 2).backward()
            sgd.step()
            sgd.zero_grad()
            outputs[1].append(y.detach())
        return outputs

    assert_agree(program, world_size)


class Chain(nn.Module):
    """Two blocks and a head of 5 rows, which two ranks share unevenly."""

    def __init__(self) -> None:
        """Draw the same parameters each time."""
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(2))
        self.head = nn.Linear(3, 5)
        self.double()

    def forward(self, x: Tensor) -> Any:
        """Return what the head makes of it."""
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_an_optimizer_moved_to_the_shards_is_one_built_for_them() -> None:
    """Three AdamW steps, decay for matrices only; torch's documentation builds the optimizer after fully_shard."""
    shard = reference("optimizer_after_sharding").shard

    def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
        matrices, biases = ([p for p in model.parameters() if (p.dim() == 2) is wide] for wide in (True, False))
        return torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.3}, {"params": biases, "weight_decay": 0.0}], lr=0.02
        )

    def program(rank: int, size: int) -> Any:
        mesh, ours, theirs = init_device_mesh("cpu", (size,)), Chain(), Chain()
        before = optimizer_of(ours)
        shard(ours, before, mesh)
        for block in theirs.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(theirs, mesh=mesh)
        for model, optimizer in ((ours, before), (theirs, optimizer_of(theirs))):
            for step in range(3):
                optimizer.zero_grad()
                model(drawn(100 * step + rank, 2, 3)).square().sum().backward()
                optimizer.step()
        return [[p.full_tensor().detach() for p in model.parameters()] for model in (ours, theirs)]  # type: ignore[operator]  # DTensors

    assert_agree(program, 2)


def test_lars_and_muon_on_shards_step_as_whole_tensors_do() -> None:
    """On real ranks, for which the exercise has no check; torch's own Muon rounds to bfloat16."""
    exercise = reference("elementwise_or_not")

    def program(rank: int, size: int) -> Any:
        weights, gradients = ([drawn(seed + n, n, 3) for n in (4, 2)] for seed in (0, 10))
        ours, theirs = [], []
        for rule in ("lars", "muon"):
            shards = [w.chunk(size)[rank].clone() for w in weights]
            own = [g.chunk(size)[rank].clone() for g in gradients]
            moments = [torch.zeros_like(g) for g in own]
            if rule == "lars":
                exercise.lars_step(shards, own, moments, dist.group.WORLD, 0.5, decay=0.0, trust=0.1)
            else:
                exercise.muon_step(shards, own, moments, [4, 2], dist.group.WORLD, 0.5)
            for w, g in zip(weights, gradients, strict=True):
                change = g * 0.1 * w.norm() / g.norm()
                if rule == "muon":
                    u, s, v = torch.linalg.svd(g / (g.norm() + 1e-7), full_matrices=False)
                    for _ in range(5):
                        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
                    change = max(1.0, len(g) / 3) ** 0.5 * (u * s) @ v
                theirs.append((w - 0.5 * change).chunk(size)[rank])
            ours += shards
        return ours, theirs

    assert_agree(program, 2)

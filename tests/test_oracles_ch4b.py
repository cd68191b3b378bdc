"""Claims that references of chapter 4 agree with torch: clipping under fully_shard, and Distributed Checkpoint."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from rank_pump import Program, run

REFERENCE = Path(__file__).parents[1] / "reference" / "ch4_sharded_data_parallel"
SIZES = {"weight": 7, "weight.momentum": 7, "bias": 1}


def reference(slug: str) -> ModuleType:
    """Load a reference by its path."""
    spec = importlib.util.spec_from_file_location(f"reference_{slug}", REFERENCE / slug / f"{slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def values_of(program: Program, world_size: int) -> list[Any]:
    """Return what a program returned on each real rank."""
    values = run(program, world_size, "gloo").values
    for rank, value in enumerate(values):
        assert not isinstance(value, str), f"rank {rank}: {value}"
    return list(values)


def assert_agree(program: Program, world_size: int) -> None:
    """Run a program that returns (ours, torch's) and compare the two on every rank."""
    for rank, (ours, theirs) in enumerate(values_of(program, world_size)):
        assert len(ours) == len(theirs) > 0
        for one, other in zip(ours, theirs, strict=True):
            bound = 1e-10 * np.abs(other).max(initial=0.0)
            np.testing.assert_allclose(one, other, rtol=0, atol=bound, err_msg=f"rank {rank}")


@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.parametrize("max_norm", [0.05, 1e3])
def test_one_global_norm_is_that_of_torch_under_fully_shard(world_size: int, max_norm: float) -> None:
    """With uneven shards (5 rows), above and below the threshold; torch adds 1e-6 to the norm before it divides."""
    clip_grad_norm = reference("one_global_norm").clip_grad_norm

    def program(rank: int, _: int) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
        fully_shard(model, mesh=init_device_mesh("cpu", (world_size,)))
        x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
        model(x).square().sum().backward()
        ours = []
        for parameter in model.parameters():
            assert isinstance(parameter.grad, DTensor)
            local = parameter.grad.to_local().clone()
            mine = nn.Parameter(torch.zeros_like(local))
            mine.grad, mine.sharded = local, True  # type: ignore[attr-defined]  # the exercise's mark
            ours.append(mine)
        norm = clip_grad_norm(iter(ours), max_norm, dist.group.WORLD)
        total = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        assert isinstance(total, DTensor)
        theirs: list[Tensor] = [parameter.grad.to_local() for parameter in model.parameters()]  # type: ignore[union-attr]
        expected = total.full_tensor()
        undo = (expected + 1e-6) / expected if expected > max_norm else torch.ones(())
        return [torch.tensor(norm, dtype=torch.float64), *(one.grad for one in ours)], [
            expected,
            *(one * undo for one in theirs),
        ]

    assert_agree(program, world_size)


def whole(name: str) -> Tensor:
    """Return a whole tensor."""
    drawn = torch.Generator().manual_seed(len(name))
    return torch.randn(SIZES[name], generator=drawn, dtype=torch.float64)


@pytest.mark.parametrize("readers", [1, 3])
def test_portable_checkpoint_loads_what_distributed_checkpoint_loads(tmp_path: Path, readers: int) -> None:
    """Saved on 2 ranks, loaded on another number."""
    ours = reference("portable_checkpoint")
    (tmp_path / "ours").mkdir()

    def disk(rank: int) -> Any:
        return ours.Disk(tmp_path / "ours") if rank == 0 else None

    def writer(rank: int, _: int) -> Any:
        mesh, shards = init_device_mesh("cpu", (2,)), {}
        for name, size in SIZES.items():
            length = ours.shard_length(size, 2)
            shards[name] = torch.cat([whole(name), torch.zeros(length)])[length * rank :][:length].contiguous()
        ours.save(ours.State(dict(SIZES), shards, 3, 12, torch.zeros(1)), disk(rank), dist.group.WORLD)
        dcp.save(
            {name: distribute_tensor(whole(name), mesh, [Shard(0)]) for name in SIZES}, checkpoint_id=tmp_path / "dcp"
        )
        return []

    def reader(rank: int, _: int) -> Any:
        mesh = init_device_mesh("cpu", (readers,))
        state = ours.load(disk(rank), dist.group.WORLD)
        theirs = {n: distribute_tensor(torch.zeros(s, dtype=torch.float64), mesh, [Shard(0)]) for n, s in SIZES.items()}
        dcp.load(theirs, checkpoint_id=tmp_path / "dcp")
        local = [theirs[name].to_local() for name in SIZES]
        return [state.shards[name][: len(one)] for name, one in zip(SIZES, local, strict=True)], local

    values_of(writer, 2)
    assert_agree(reader, readers)

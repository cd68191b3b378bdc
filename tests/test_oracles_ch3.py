"""The references of chapter 3 agree with torch.distributed.pipelining."""

from __future__ import annotations

import importlib.util
import multiprocessing
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.testing._internal.distributed.fake_pg import FakeStore

from grader import schedules

CHAPTER = Path(__file__).resolve().parent.parent / "reference" / "ch3_pipeline_parallel"
FORK = multiprocessing.get_context("fork")


@cache
def reference(slug: str) -> ModuleType:
    """Load a reference from its file."""
    spec = importlib.util.spec_from_file_location(f"reference_{slug}", CHAPTER / slug / f"{slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pretended_ranks(request: pytest.FixtureRequest) -> Iterator[int]:
    """Join a process group of several ranks of which only rank 0 exists."""
    dist.init_process_group("fake", rank=0, world_size=request.param, store=FakeStore())
    yield request.param
    dist.destroy_process_group()


class Recording(PipelineStage):
    """Write down what a schedule asks of its stage, and exchange nothing."""

    def __init__(self, stage: int, ranks: int) -> None:
        """Begin as one of `ranks` stages."""
        meta = torch.empty(1, 1, device="meta")
        super().__init__(nn.Identity(), stage, ranks, torch.device("cpu"), input_args=meta, output_args=meta)
        self.asked: list[str] = []

    def forward_one_chunk(self, micro_batch: int, *_: Any, **__: Any) -> Tensor:
        """Write a forward down."""
        self.asked.append(f"{self.stage_index}F{micro_batch}")
        return torch.zeros(1)

    def backward_one_chunk(self, micro_batch: int, *_: Any, **__: Any) -> None:
        """Write a backward down."""
        self.asked.append(f"{self.stage_index}B{micro_batch}")

    def get_fwd_recv_ops(self, *_: Any) -> list[dist.P2POp]:
        """Exchange nothing."""
        return []

    get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = get_fwd_recv_ops

    def perform_reduce_grad(self, *_: Any) -> None:
        """Reduce nothing."""


def orders(schedule: type, ranks: int, micro_batches: int) -> list[list[str]]:
    """Return what torch makes each rank do in a step.

    `_get_pipeline_order` says something else: in 2.13 that of 1F1B begins with micro-batch 1 on the last rank.
    """
    rows = []
    for rank in range(ranks):
        stage = Recording(rank, ranks)
        made = schedule(stage, micro_batches)
        made._stage_forward_initialized = made._stage_backward_initialized = made._stage_initialized = True
        made._initialize_stage = lambda *_: None
        made._step_microbatches([()] * micro_batches)
        rows.append(stage.asked)
    return rows


def interleaved_orders(ranks: int, micro_batches: int, chunks: int) -> list[list[str]]:
    """Return the lists by which torch's interleaved schedule runs."""
    stages = [Recording(chunk * ranks, ranks * chunks) for chunk in range(chunks)]
    table = ScheduleInterleaved1F1B(stages, micro_batches).pipeline_order
    rows = [[str(action) for action in table[rank] if action is not None] for rank in range(ranks)]
    return [[action for action in row if schedules.read(action)] for row in rows]


@pytest.mark.parametrize("pretended_ranks", [2, 3, 4], indirect=True)
def test_our_1f1b_is_torchs_1f1b(pretended_ranks: int) -> None:
    """The same actions in the same order, whatever each counts to the warm-up."""
    module, ranks = reference("one_forward_one_backward"), pretended_ranks
    for micro_batches in range(ranks, 9):
        ours = [module.schedule(rank, ranks, micro_batches) for rank in range(ranks)]
        assert ours == orders(Schedule1F1B, ranks, micro_batches)


@pytest.mark.parametrize("pretended_ranks", [2, 4], indirect=True)
@pytest.mark.parametrize(("name", "schedule"), [("gpipe", ScheduleGPipe), ("1f1b", Schedule1F1B)])
def test_bubbles_and_peaks_are_those_of_torchs_orders(pretended_ranks: int, name: str, schedule: type) -> None:
    module, times = reference("bubble_and_memory"), {"forward_s": 1.0, "input_s": 1.25, "weight_s": 0.75}
    rows = orders(schedule, pretended_ranks, 8)
    bubble = schedules.run(rows, {"F": 1.0, "B": 2.0}).end - 8 * 3.0
    assert module.bubble_s(name, pretended_ranks, times) == pytest.approx(bubble, rel=1e-10)
    peaks = [module.peak_in_flight(name, rank, pretended_ranks, 8) for rank in range(pretended_ranks)]
    assert peaks == [max(schedules.in_flight(row)) for row in rows]


@pytest.mark.parametrize("pretended_ranks", [2, 4], indirect=True)
@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaving_is_that_of_torchs_order(pretended_ranks: int, chunks: int) -> None:
    """A chunk takes 1/v of a stage's time; bubble and peaks, in chunks, come out of torch's own lists."""
    ranks, module = pretended_ranks, reference("bubble_and_memory")
    times = {"forward_s": 1.0, "input_s": 0.5, "weight_s": 0.5}
    for micro_batches in (ranks, 4 * ranks):
        rows = interleaved_orders(ranks, micro_batches, chunks)
        done = schedules.run(rows, {"F": 1.0 / chunks, "B": 1.0 / chunks})
        assert not done.waits
        bubble = module.bubble_s("interleaved", ranks, times, chunks)
        assert done.end - 2.0 * micro_batches == pytest.approx(bubble, rel=1e-10)
        peaks = [module.peak_in_flight("interleaved", rank, ranks, micro_batches, chunks) for rank in range(ranks)]
        assert peaks == [max(schedules.in_flight(row)) for row in rows]


def ours_and_torchs(rank: int, store: str, name: str, answer: Any) -> None:
    """Train one step on one of two real ranks with the reference and with torch's schedule; send both gradients."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{store}")
    torch.manual_seed(0)
    stage = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.Linear(3, 3)][rank].double()
    x, label = torch.randn(8, 3, dtype=torch.float64), torch.randint(3, (8,))
    reported = reference("divide_loss_once").backward(stage, x.chunk(4), label.chunk(4))
    ours = gradients_of(stage)
    made = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[name](
        PipelineStage(stage, rank, 2, torch.device("cpu")), 4, loss_fn=nn.functional.cross_entropy, scale_grads=True
    )
    losses: list[Tensor] = []
    made.step(*([x] if rank == 0 else []), **({} if rank == 0 else {"target": label, "losses": losses}))
    loss = [reported, float(torch.stack(losses).detach().mean())] if rank == 1 else []
    answer.send((ours, gradients_of(stage), loss))
    dist.destroy_process_group()


def gradients_of(stage: nn.Module) -> list[Any]:
    """Return the gradients as arrays, and take them from the stage."""
    found = [parameter.grad.numpy().copy() for parameter in stage.parameters() if parameter.grad is not None]
    stage.zero_grad()
    return found


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_gradients_are_those_of_torchs_schedule_with_scale_grads(tmp_path: Path, name: str) -> None:
    """Dividing the loss once equals dividing each stage's gradients once in the end."""
    pipes = [FORK.Pipe(duplex=False) for _ in range(2)]
    store = str(tmp_path / "store")
    ranks = [FORK.Process(target=ours_and_torchs, args=(r, store, name, pipes[r][1]), daemon=True) for r in range(2)]
    for process, (_, sender) in zip(ranks, pipes, strict=True):
        process.start()
        sender.close()  # so that a rank that ends early is noticed at once
    for receiver, _ in pipes:
        assert receiver.poll(60), "a rank has not answered"
        ours, torchs, losses = receiver.recv()
        assert len(ours) == len(torchs) == 2
        for mine, other in zip(ours, torchs, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)
        assert losses[:1] == pytest.approx(losses[1:], rel=1e-10)
    for process in ranks:
        process.join(10)

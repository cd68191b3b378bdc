"""Claims that the references of chapter 1 agree with torch: DDP, its comm hooks and Join, DistributedSampler."""

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
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from rank_pump import Program, run

REFERENCE = Path(__file__).parents[1] / "reference" / "ch1_data_parallel"
Batch = tuple[Tensor, Tensor]


def reference(slug: str) -> ModuleType:
    """Load a reference by its path."""
    spec = importlib.util.spec_from_file_location(f"reference_{slug}", REFERENCE / slug / f"{slug}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model_of(seed: int) -> nn.Sequential:
    """Return a small float64 model."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def batch_of(seed: int, samples: int = 2) -> Batch:
    """Return random inputs and targets."""
    drawn = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(samples, size, generator=drawn, dtype=torch.float64) for size in (3, 2))  # type: ignore[return-value]  # two


def gradients_of(model: nn.Module) -> list[Tensor]:
    """Return copies of all gradients."""
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def backward(model: nn.Module, batch: Batch) -> None:
    """Back-propagate the mean squared error."""
    nn.functional.mse_loss(model(batch[0]), batch[1]).backward()


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
def test_mean_gradients_are_those_of_ddp(world_size: int) -> None:
    """After a backward on each rank's own batch."""
    sync_gradients = reference("mean_gradients").sync_gradients

    def program(rank: int, _: int) -> Any:
        ours, theirs = model_of(0), model_of(0)
        backward(ours, batch_of(rank))
        sync_gradients(ours, dist.group.WORLD)
        backward(DistributedDataParallel(theirs), batch_of(rank))
        return gradients_of(ours), gradients_of(theirs)

    assert_agree(program, world_size)


def test_shared_start_is_what_ddp_broadcasts() -> None:
    """Parameters and buffers, those that are not persistent too."""
    setup = reference("shared_start").setup

    def program(rank: int, _: int) -> Any:
        ours, theirs = (nn.BatchNorm1d(3).double() for _ in range(2))
        for model in (ours, theirs):
            model.register_buffer("scratch", torch.full((2,), float(rank)), persistent=False)
            nn.init.constant_(model.weight, rank + 0.5)
            model.running_mean += rank
        setup(ours, 5, dist.group.WORLD)
        DistributedDataParallel(theirs)
        return [[t.detach().clone() for t in (*model.parameters(), *model.buffers())] for model in (ours, theirs)]

    assert_agree(program, 2)


def test_padded_epochs_are_those_of_the_distributed_sampler() -> None:
    """Sample by sample, for all ranks, also with fewer samples than ranks."""
    epoch_indices = reference("epoch_shuffle").epoch_indices
    for n, world_size, epoch in [(24, 2, 0), (7, 3, 1), (11, 4, 5), (2, 5, 2)]:
        for rank in range(world_size):
            sampler = DistributedSampler(range(n), world_size, rank, shuffle=True, seed=9)  # type: ignore[arg-type]  # sized
            sampler.set_epoch(epoch)
            assert epoch_indices(n, world_size, rank, epoch, 9, True) == list(sampler)


def partners(algorithm: str, n: int, p: int) -> Program:
    """Return a program that sends the messages of a pairwise all-reduce of n float64."""

    def exchange(peer: int, size: int) -> None:
        for work in [dist.isend(torch.zeros(size), peer), dist.irecv(torch.zeros(size), peer)]:
            work.wait()  # type: ignore[union-attr]  # the groups have us

    def program(rank: int, _: int) -> Any:
        r = p.bit_length() - 1
        paired = 2**r
        if rank >= paired:
            dist.send(torch.zeros(n), rank - paired)
            dist.recv(torch.zeros(n), rank - paired)
            return None
        if rank + paired < p:
            dist.recv(torch.zeros(n), rank + paired)
        halves = [n >> (step + 1) for step in range(r)]
        whole = [n] * r
        for step, size in enumerate(whole if algorithm == "recursive doubling" else halves + halves[::-1]):
            distance = step if step < r else 2 * r - 1 - step
            exchange(rank ^ (1 << distance), size)
        if rank + paired < p:
            dist.send(torch.zeros(n), rank + paired)
        return None

    return program


@pytest.mark.parametrize("algorithm", ["recursive doubling", "halving and doubling"])
@pytest.mark.parametrize("p", [3, 4, 6])
def test_predicted_times_are_those_of_the_messages_themselves(algorithm: str, p: int) -> None:
    """On the simulated network, whose clock knows no formula for these algorithms."""
    link, n = {"alpha_s": 1e-6, "beta_s_per_byte": 1e-9}, 1024
    outcome = run(partners(algorithm, n, p), p, **link)
    assert outcome.values == [None] * p
    predicted = reference("latency_or_bandwidth").all_reduce_s(algorithm, 4 * n, p, link)
    assert max(outcome.clocks_s) == pytest.approx(predicted, rel=1e-9)


@pytest.mark.parametrize("p", [2, 3, 5])
def test_the_predicted_ring_is_that_of_the_network(p: int) -> None:
    """Whose collectives take the time of a ring."""
    link, n = {"alpha_s": 1e-6, "beta_s_per_byte": 1e-9}, 30
    outcome = run(lambda *_: dist.all_reduce(torch.zeros(n)), p, **link)
    predicted = reference("latency_or_bandwidth").all_reduce_s("ring", 4 * n, p, link)
    assert max(outcome.clocks_s) == pytest.approx(predicted, rel=1e-9)


def test_accumulated_steps_are_those_of_ddp_on_the_whole_window() -> None:
    """With one call of the comm hook for each of them, counted by the hook."""
    train_epoch = reference("accumulate_once").train_epoch

    def program(rank: int, _: int) -> Any:
        ours, theirs, reduced = model_of(0), model_of(0), []
        batches = [batch_of(10 * rank + i) for i in range(5)]
        accumulating = DistributedDataParallel(ours)

        def hook(_: object, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
            reduced.append(bucket.index())
            work = dist.all_reduce(bucket.buffer() / dist.get_world_size(), async_op=True)
            assert work is not None
            return work.get_future().then(lambda future: future.value()[0])

        hook.__annotations__.clear()  # DDP wants classes there, and they are text in this module
        accumulating.register_comm_hook(None, hook)
        steps = train_epoch(accumulating, torch.optim.SGD(ours.parameters(), lr=0.1), batches, 2)
        whole, optimizer = DistributedDataParallel(theirs), torch.optim.SGD(theirs.parameters(), lr=0.1)
        for start in range(0, 5, 2):
            optimizer.zero_grad()
            x, y = (torch.cat(parts) for parts in zip(*batches[start : start + 2], strict=True))
            backward(whole, (x, y))
            optimizer.step()
        assert steps == len(reduced) == 3
        return [[p.detach().clone() for p in model.parameters()] for model in (ours, theirs)]

    assert_agree(program, 2)


def test_token_losses_under_ddp_are_the_mean_over_all_tokens() -> None:
    """The gradient that DDP averages and the reported loss, against cross_entropy on everybody's tokens."""
    token_loss = reference("token_weighted_loss").token_loss

    def program(rank: int, world_size: int) -> Any:
        data = [batch_of(r, samples=1 + 3 * r)[0] for r in range(world_size)]
        labels = [torch.arange(len(x)) % 2 for x in data]
        labels[-1][0] = -100
        ours, theirs = model_of(0), model_of(0)
        wrapped = DistributedDataParallel(ours)  # kept: its reducer ends with it
        loss, reported = token_loss(wrapped(data[rank]), labels[rank], dist.group.WORLD)
        loss.backward()
        alone = nn.functional.cross_entropy(theirs(torch.cat(data)), torch.cat(labels))
        alone.backward()
        return [*gradients_of(ours), reported], [*gradients_of(theirs), alone.detach()]

    assert_agree(program, 3)


def test_uneven_epochs_are_those_of_join() -> None:
    """With batches of one size, divided by the ranks that still have data."""
    train_epoch = reference("uneven_ranks").train_epoch

    def program(rank: int, _: int) -> Any:
        ours, theirs = model_of(0), model_of(0)
        batches = [batch_of(10 * rank + i) for i in range(1 + rank)]
        steps = train_epoch(ours, torch.optim.SGD(ours.parameters(), lr=0.1), iter(batches), dist.group.WORLD)
        joined = DistributedDataParallel(theirs, process_group=dist.new_group(backend="gloo"))
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
        with Join([joined], divide_by_initial_world_size=False):
            for batch in batches:
                optimizer.zero_grad()
                backward(joined, batch)
                optimizer.step()
        assert steps == dist.get_world_size()
        return [[p.detach().clone() for p in model.parameters()] for model in (ours, theirs)]

    assert_agree(program, 3)


def test_buckets_under_hooks_bring_the_gradients_of_ddp() -> None:
    """While backward runs, over two steps, on a real network."""
    gradient_buckets = reference("buckets_in_flight").GradientBuckets

    def program(rank: int, _: int) -> Any:
        ours, theirs = model_of(0), model_of(0)
        buckets = gradient_buckets(ours.parameters(), 64, dist.group.WORLD)
        for parameter in ours.parameters():
            parameter.register_post_accumulate_grad_hook(buckets.ready)
        wrapped, gathered = DistributedDataParallel(theirs), ([], [])
        for step in range(2):
            for model in (ours, theirs):
                model.zero_grad()
            backward(ours, batch_of(10 * rank + step))
            buckets.finish()
            backward(wrapped, batch_of(10 * rank + step))
            for model, gradients in zip((ours, theirs), gathered, strict=True):
                gradients += gradients_of(model)
        return gathered

    assert_agree(program, 2)

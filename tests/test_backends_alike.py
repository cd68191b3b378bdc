"""Claims about both backends, made with real processes: what gloo does, the simulation does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ReduceOp

from grader.records import Call
from rank_pump import Program, Transport, assert_same, numbers, run

DTYPES = [
    getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8")
]


def reductions(rank: int, world: int) -> Any:
    """Reduce with every operator in every dtype that gloo knows."""
    results = []
    for dtype in DTYPES:
        real = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
        bits = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
        for op in real + ([ReduceOp.AVG] if dtype.is_floating_point else bits):
            tensor = numbers(rank, 2, 3, dtype=dtype)
            dist.all_reduce(tensor, op)
            results.append(tensor)
    for op in (ReduceOp.MIN, ReduceOp.MAX):
        truth = torch.tensor([True, False, rank == 0])
        dist.all_reduce(truth, op)
        results.append(truth)
    turned = torch.complex(numbers(rank, 3), numbers(rank, 3) * 2)
    dist.all_reduce(turned)
    rooted = numbers(rank, 4)
    dist.reduce(rooted, world - 1, ReduceOp.SUM)
    return [*results, turned, rooted if rank == world - 1 else None]


def gathers(rank: int, world: int) -> Any:
    """Gather, scatter and broadcast, into lists and into single tensors."""
    lists = [torch.zeros(2, 2) for _ in range(world)]
    dist.all_gather(lists, numbers(rank, 2, 2))
    single = torch.zeros(2 * world, 3, dtype=torch.bfloat16)
    dist.all_gather_single(single, numbers(rank, 2, 3, dtype=torch.bfloat16))
    parts = [torch.zeros(3) for _ in range(world)] if rank == 0 else None
    dist.gather(numbers(rank, 3), parts, dst=0)
    part = torch.zeros(3)
    dist.scatter(part, [numbers(place, 3) for place in range(world)] if rank == world - 1 else None, src=world - 1)
    copied = numbers(rank, 5) if rank == 1 else torch.zeros(5)
    dist.broadcast(copied, src=1)
    flag = torch.tensor(rank == 0)
    dist.broadcast(flag, src=0)
    dist.barrier()
    return [lists, single, parts, part, copied, flag]


def scatters(rank: int, world: int) -> Any:
    """Reduce and scatter; exchange all to all, evenly and unevenly."""
    results = []
    for op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX):
        from_list, from_one = torch.zeros(2), torch.zeros(2, 2)
        dist.reduce_scatter(from_list, [numbers(rank + place, 2) for place in range(world)], op)
        dist.reduce_scatter_single(from_one, numbers(rank, 2 * world, 2), op)
        results += [from_list, from_one]
    uneven = torch.zeros(rank + 1)
    dist.reduce_scatter(uneven, [numbers(rank, place + 1) for place in range(world)])
    rooms = [torch.zeros(2) for _ in range(world)]
    dist.all_to_all(rooms, [numbers(rank + place, 2) for place in range(world)])
    even = torch.zeros(world, 2)
    dist.all_to_all_single(even, numbers(rank, world, 2))
    rows = torch.zeros(world * (rank + 1), 2)
    splits = list(range(1, world + 1))
    dist.all_to_all_single(rows, numbers(rank, sum(splits), 2), [rank + 1] * world, splits)
    return [results, uneven, rooms, even, rows]


def messages(rank: int, world: int) -> Any:
    """Send around the ring: blocking, not blocking, in a batch, with tags out of order, from any source."""
    after, before = (rank + 1) % world, (rank - 1) % world
    got = torch.zeros(3)
    if rank % 2:
        dist.recv(got, before)
    dist.send(numbers(rank, 3), after)
    if not rank % 2:
        dist.recv(got, before)
    first, second = torch.zeros(2), torch.zeros(2)
    works = [dist.isend(numbers(rank, 2), after, tag=1), dist.isend(numbers(rank + 1, 2), after, tag=2)]
    works += [dist.irecv(second, before, tag=2), dist.irecv(first, before, tag=1)]
    for work in works:
        work.wait()
    batched = torch.zeros(2, 2)
    pair = [dist.P2POp(dist.isend, numbers(rank, 2, 2), after), dist.P2POp(dist.irecv, batched, before)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    return [got, first, second, batched, *from_anyone(rank, world)]


def from_anyone(rank: int, world: int) -> list[Any]:
    """Collect at rank 0 one message of everyone, in whatever order."""
    if rank:
        dist.send(torch.tensor([float(rank)]), 0)
        return []
    seen = []
    for _ in range(world - 1):
        room = torch.zeros(1)
        seen.append([dist.recv(room), room.item()])
    return sorted(seen)


def objects(rank: int, world: int) -> Any:
    """Move Python objects of different sizes."""
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, {"rank": rank, "pad": "x" * rank})
    shared = [rank, "word"] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, src=0)
    gathered = [None] * world if rank == 0 else None
    dist.gather_object("y" * rank, gathered, dst=0)
    part: list[Any] = [None]
    dist.scatter_object_list(part, [f"for {place}" for place in range(world)] if rank == 0 else None, src=0)
    return [[list(item.items()) for item in everyone], shared, gathered, part]


def subgroups(rank: int, world: int) -> Any:
    """Use groups of some ranks, also where this one is no member, and a mesh."""
    some, last = dist.new_group([0, 1]), dist.new_group([world - 1])
    tensor = numbers(rank, 3)
    if rank < 2:
        dist.all_reduce(tensor, group=some)
        dist.broadcast(tensor, src=1, group=some)
    if rank == world - 1:
        dist.all_reduce(tensor, group=last)
    mesh = dist.init_device_mesh("cpu", (1, world), mesh_dim_names=("one", "all"))
    whole = numbers(rank, 2)
    dist.all_reduce(whole, group=mesh["all"].get_group())
    return [some is dist.GroupMember.NON_GROUP_MEMBER, tensor, whole]


def layouts(rank: int, world: int) -> Any:
    """Use tensors that are transposed, scalar, empty or part of a larger one."""
    turned, scalar, empty = numbers(rank, 2, 3).t(), numbers(rank, 1)[0], torch.zeros(0, 2)
    for tensor in (turned, scalar, empty):
        dist.all_reduce(tensor)
    rooms = [torch.zeros(0) for _ in range(world)]
    dist.all_gather(rooms, torch.zeros(0))
    part = torch.zeros(6)[2:4]
    dist.broadcast(part if rank else numbers(7, 2), src=0)
    return [turned.contiguous(), scalar, empty, rooms, part]


def asynchronous(rank: int, world: int) -> Any:
    """Launch several operations, then wait for them in another order."""
    total, rooms, single = numbers(rank, 3), [torch.zeros(2) for _ in range(world)], torch.zeros(2 * world)
    works = [
        dist.all_reduce(total, async_op=True),
        dist.all_gather(rooms, numbers(rank, 2), async_op=True),
        dist.all_gather_single(single, numbers(rank, 2), async_op=True),
    ]
    for work in reversed(works):
        assert work is not None
        work.wait()
    future_total = numbers(rank, 2)
    work = dist.all_reduce(future_total, async_op=True)
    assert work is not None
    doubled = work.get_future().then(lambda future: future.value()[0] * 2).wait()
    with dist.distributed_c10d._coalescing_manager():
        together = [numbers(rank, 2), numbers(rank, 3)]
        for tensor in together:
            dist.all_reduce(tensor)
    return [total, rooms, single, doubled, together]


ALIKE: list[Program] = [reductions, gathers, scatters, messages, objects, subgroups, layouts, asynchronous]


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("program", ALIKE, ids=lambda program: program.__name__)
def test_the_simulation_gives_what_gloo_gives(program: Program, world_size: int) -> None:
    """The same values, and the same calls with the same bytes at the same lines."""
    ours, theirs = run(program, world_size), run(program, world_size, "gloo")
    assert ours.failure is theirs.failure is None
    assert_same(ours.values, theirs.values)
    for mine, other in zip(ours.calls, theirs.calls, strict=True):
        assert [signature(call) for call in mine] == [signature(call) for call in other]
        assert all(call.completed for call in other)


def signature(call: Call) -> tuple[Any, ...]:
    """Return what of a call does not depend on the transport; who a message from any source comes from does."""
    fixed = (call.op, call.group, call.shape, call.dtype, call.payload_bytes, call.ring_bytes, call.line)
    return fixed if call.op == "recv" else (*fixed, call.peer)


@pytest.mark.parametrize("world_size", [5, 8])
@pytest.mark.parametrize("program", ALIKE, ids=lambda program: program.__name__)
def test_the_simulation_runs_on_five_and_eight_ranks(program: Program, world_size: int) -> None:
    """Every program above completes."""
    outcome = run(program, world_size)
    assert outcome.failure is None
    assert not [value for value in outcome.values if isinstance(value, str)]


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_one_rank_alone_reduces_to_itself(transport: Transport) -> None:
    """Without a byte on the wire."""
    outcome = run(reductions, 1, transport)
    np.testing.assert_array_equal(outcome.values[0][0], numbers(0, 2, 3, dtype=torch.float64).numpy())
    assert {call.ring_bytes for call in outcome.calls[0]} == {0}


def model() -> nn.Module:
    """Return the same small model on every rank."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 2)).double()


def gradients_of_ddp(rank: int, _: int) -> Any:
    """Let DistributedDataParallel reduce, in several buckets."""
    replica = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=1e-5)
    for step in range(2):  # the buckets are laid out anew after the first backward
        replica.zero_grad()
        replica(numbers(rank + step, 2, 4, dtype=torch.float64)).pow(2).mean().backward()
    return [parameter.grad for parameter in replica.parameters()]


def gradients_of_fully_shard(rank: int, _: int) -> Any:
    """Let FSDP2 gather and scatter."""
    from torch.distributed.fsdp import fully_shard

    sharded = model()
    fully_shard(sharded[0])  # type: ignore[index]  # a Sequential
    fully_shard(sharded)
    sharded(numbers(rank, 2, 4, dtype=torch.float64)).pow(2).mean().backward()
    return [parameter.grad.full_tensor() for parameter in sharded.parameters()]


def gradients_of_one_process(world: int, step: int) -> list[np.ndarray[Any, Any]]:
    """Return the gradient of the mean over all ranks' batches."""
    alone = model()
    losses = [alone(numbers(rank + step, 2, 4, dtype=torch.float64)).pow(2).mean() for rank in range(world)]
    torch.stack(losses).mean().backward()
    return [parameter.grad.numpy() for parameter in alone.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
@pytest.mark.parametrize(
    ("program", "step", "ops"),
    [
        (gradients_of_ddp, 1, {"all_gather", "broadcast", "all_reduce"}),
        (gradients_of_fully_shard, 0, {"all_gather", "reduce_scatter"}),
    ],
)
def test_what_torch_itself_launches_is_seen(program: Program, step: int, ops: set[str], transport: Transport) -> None:
    """The operations of the C++ reducer and of FSDP2 are recorded, complete, and at a line of the submission."""
    outcome = run(program, 2, transport)
    assert outcome.failure is None
    for value in outcome.values:
        for ours, expected in zip(value, gradients_of_one_process(2, step), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-14)
    for calls in outcome.calls:
        assert {call.op for call in calls} == ops
        assert all(call.completed and call.line for call in calls)


def functional(rank: int, world: int) -> Any:
    """Use functional collectives, which C++ calls and waits for."""
    import torch.distributed._functional_collectives as functional_collectives
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    world_group: Any = dist.group.WORLD
    total = functional_collectives.all_reduce(numbers(rank, 4), "sum", world_group)
    moved = functional_collectives.all_to_all_single(numbers(rank, 2 * world), None, None, world_group)
    mesh = dist.init_device_mesh("cpu", (world,))
    whole = numbers(0, 4, 4)
    product = distribute_tensor(whole, mesh, [Shard(0)]) @ distribute_tensor(whole, mesh, [Shard(1)])
    return [total + 0, moved + 0, product.redistribute(mesh, [Replicate()]).to_local()]


def test_functional_collectives_and_tensors_on_a_mesh_work_alike() -> None:
    """C++ finds the methods of both backends."""
    ours, theirs = run(functional, 2), run(functional, 2, "gloo")
    assert_same(ours.values, theirs.values)
    assert Counter(call.op for call in ours.calls[0]) == Counter(call.op for call in theirs.calls[0])


def test_the_words_for_sending_tell_what_the_user_called() -> None:
    """`send` is `isend` and a wait; the stack tells them apart."""
    calls = run(messages, 2).calls[0]
    assert [call.op for call in calls[:2]] == ["send", "recv"]
    assert [call.op for call in calls[2:8]] == ["isend", "isend", "irecv", "irecv", "isend", "irecv"]

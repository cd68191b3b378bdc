"""Claims about both backends, made with real processes joined by a small pump: what gloo does, the simulation does."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pytest
import torch
import torch._dynamo  # DDP, FSDP2 and meshes import it late; once here is cheaper than once a rank
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor
from torch import Tensor, nn
from torch.distributed import ReduceOp

from grader import wire
from grader.errors import StudentFailure
from grader.network import Collectives, Network
from grader.ranks import simulated, traced
from grader.ranks.loop import Link
from grader.ranks.simulated import compute
from grader.records import Call

torch.set_num_threads(1)  # a forked process must not inherit half a pool of threads

Transport = Literal["simulated", "gloo"]
Program = Callable[[int, int], Any]
LIMIT_S = 60


# ---- the pump


@dataclass
class Outcome:
    """Hold what became of one run; `values` hold a string where a rank raised."""

    values: list[Any]
    calls: list[tuple[Call, ...]] = field(default_factory=list)
    clocks_s: list[float] = field(default_factory=list)
    frames: list[tuple[int, str, int | None]] = field(default_factory=list)
    failure: StudentFailure | None = None
    waiting: list[Any] = field(default_factory=list)


def serve(program: Program, rank: int, size: int, transport: Transport, store: str, channel: socket.socket) -> NoReturn:
    """Be one rank: join, run the program, send what it returned or raised, and stay until released."""
    signal.alarm(LIMIT_S)
    link = Link(channel)
    link.submission_path = __file__
    try:
        (simulated if transport == "simulated" else traced).join(rank, size, store, link)
        link.send({"is": "returned", "value": program(rank, size)})
    except BaseException as error:
        link.send({"is": "returned", "value": f"{type(error).__name__}: {error}"})
    with suppress(Exception):
        link.receive()
    os._exit(0)


def run(program: Program, world_size: int, transport: Transport = "simulated", **network: float) -> Outcome:
    """Run a program on forked ranks and relay what they post, until all have answered or none can go on."""
    folder = tempfile.mkdtemp()
    channels: list[socket.socket] = []
    processes = []
    for rank in range(world_size):
        ours, theirs = socket.socketpair()
        channels.append(ours)
        if (process := os.fork()) == 0:
            for channel in channels:
                channel.close()
            serve(program, rank, world_size, transport, f"{folder}/store", theirs)
        theirs.close()
        processes.append(process)
    try:
        return pump(channels, Network(world_size, **network) if transport == "simulated" else Collectives())
    finally:
        for channel, process in zip(channels, processes, strict=True):
            channel.close()
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        shutil.rmtree(folder)


def pump(channels: list[socket.socket], books: Network | Collectives) -> Outcome:
    """Hand the ranks' frames to the books and the network's answers to the ranks."""
    outcome, left = Outcome([None] * len(channels)), set(range(len(channels)))
    readers = [wire.FrameReader() for _ in channels]
    selector = selectors.DefaultSelector()
    for rank, channel in enumerate(channels):
        selector.register(channel, selectors.EVENT_READ, rank)
    try:
        while left and outcome.failure is None:
            for key, _ in selector.select(LIMIT_S):
                for message in readers[key.data].feed(channels[key.data].recv(1 << 18)):
                    take(message, key.data, books, outcome, left)
            if isinstance(books, Network) and books.blocked:
                advance(books, channels, outcome)
    except StudentFailure as failure:
        outcome.failure = failure
    selector.close()
    outcome.calls = [books.calls(rank) for rank in range(len(channels))]
    if isinstance(books, Network):
        outcome.clocks_s = [books.clock_s(rank) for rank in range(len(channels))]
    return outcome


def take(message: dict[str, Any], rank: int, books: Network | Collectives, outcome: Outcome, left: set[int]) -> None:
    """Enter one frame of one rank."""
    outcome.frames.append((rank, message["is"], message.get("n")))
    if message["is"] == "returned":
        outcome.values[rank] = plain(message["value"])
        left.discard(rank)
        if isinstance(books, Network):
            books.finish(rank)
    elif isinstance(books, Network) or message["is"] in {"post", "done"}:
        getattr(books, message["is"])(rank, message)


def advance(network: Network, channels: list[socket.socket], outcome: Outcome) -> None:
    """Let the network decide what happens next."""
    answers = network.advance()
    for rank, message in answers:
        channels[rank].sendall(wire.encode(message))
    if not answers:
        outcome.waiting = [network.waiting(rank) for rank in range(len(channels))]
        raise StudentFailure("every rank waits", kind="deadlock")


def plain(value: Any) -> Any:
    """Return arrays for tensors, so that values compare."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.array if hasattr(value, "array") else value


def assert_same(ours: Any, theirs: Any, where: str = "value") -> None:
    """Demand equal structure, dtypes, shapes and numbers."""
    if isinstance(ours, list):
        assert isinstance(theirs, list), where
        assert len(ours) == len(theirs), where
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype, where
        np.testing.assert_array_equal(ours, theirs, where)
    else:
        assert ours == theirs, where


# ---- what the two backends must do alike: numbers are small integers, so that any order of adding gives the same bits


def numbers(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return small different values on every rank."""
    size = int(np.prod(shape))
    return ((torch.arange(size) * 3 + rank * 5) % 4 + 1).reshape(shape).to(dtype)


DTYPES = [getattr(torch, name) for name in "float64 float32 float16 bfloat16 int64 int32 int8 uint8".split()]


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


def gradients_of_ddp(rank: int, world: int) -> Any:
    """Let DistributedDataParallel reduce, in several buckets."""
    replica = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=1e-5)
    for step in range(2):  # the buckets are laid out anew after the first backward
        replica.zero_grad()
        replica(numbers(rank + step, 2, 4, dtype=torch.float64)).pow(2).mean().backward()
    return [parameter.grad for parameter in replica.parameters()]


def gradients_of_fully_shard(rank: int, world: int) -> Any:
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


def gaps(rank: int, world: int) -> Any:
    """Reduce every second element, of which gloo would read and write the wrong ones without a word."""
    dist.all_reduce(numbers(rank, 6)[::2])


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_a_tensor_with_gaps_is_an_error_on_both(transport: Transport) -> None:
    """With the way out."""
    assert run(gaps, 2, transport).values[0].startswith("RuntimeError: The tensor of all_reduce has gaps in memory")


# ---- what hangs and what does not


def send_send(rank: int, world: int) -> Any:
    """Send, then receive, on both ranks."""
    dist.send(numbers(rank, 2), 1 - rank)
    dist.recv(torch.zeros(2), 1 - rank)


def isend_wait_first(rank: int, world: int) -> Any:
    """Wait for an isend before the other end has been asked for."""
    work = dist.isend(numbers(rank, 2), 1 - rank)
    assert work is not None
    work.wait()
    dist.recv(torch.zeros(2), 1 - rank)


def only_one_calls(rank: int, world: int) -> Any:
    """Reduce on rank 0 alone."""
    if rank == 0:
        dist.all_reduce(numbers(rank, 2))


@pytest.mark.parametrize("program", [send_send, isend_wait_first, only_one_calls], ids=lambda program: program.__name__)
def test_a_deadlock_is_found_with_what_each_rank_waits_for(program: Program) -> None:
    """The three hang on gloo too."""
    outcome = run(program, 2)
    assert outcome.failure is not None
    assert outcome.failure.kind == "deadlock"
    waits = outcome.waiting[0]
    assert waits["op"] in {"send", "isend", "all_reduce"}
    assert waits["line"] > 0


def different_calls(rank: int, world: int) -> Any:
    """Reduce on rank 0, broadcast on the others."""
    if rank == 0:
        dist.all_reduce(numbers(rank, 2))
    else:
        dist.broadcast(numbers(rank, 2), src=1)


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_ranks_that_call_different_things_are_told_so(transport: Transport) -> None:
    """From the posts, before gloo aborts the process."""
    failure = run(different_calls, 2, transport).failure
    assert failure is not None
    assert failure.message.startswith("rank 0 called all_reduce (sum of float32 [2], line ")
    assert "where rank 1 called broadcast (float32 [2] from rank 1, line " in failure.message


def test_the_words_for_sending_tell_what_the_user_called() -> None:
    """`send` is `isend` and a wait; the stack tells them apart."""
    calls = run(messages, 2).calls[0]
    assert [call.op for call in calls[:2]] == ["send", "recv"]
    assert [call.op for call in calls[2:8]] == ["isend", "isend", "irecv", "irecv", "isend", "irecv"]


# ---- a buffer in flight is nobody's


def too_early(rank: int, world: int) -> Any:
    """Read the buffers of operations in flight, then what they hold in the end."""
    real, whole, small = numbers(rank, 2), numbers(rank, 2, dtype=torch.int64), numbers(rank, 2, dtype=torch.uint8)
    works: list[Any] = [dist.all_reduce(tensor, async_op=True) for tensor in (real, whole, small)]
    room = torch.zeros(2)
    works += [dist.isend(torch.ones(2), (rank + 1) % world), dist.irecv(room, (rank - 1) % world)]
    early = [tensor.clone() for tensor in (real, whole, small, room)]
    completed = [work.is_completed() for work in works]
    return [early, completed, real, whole, small, room]


def test_an_asynchronous_buffer_reads_nothing_usable_before_wait() -> None:
    """NaN, or the end of the integers' range; `is_completed` waits and says yes."""
    early, completed, *late = run(too_early, 2).values[0]
    assert np.isnan(early[0]).all()
    assert np.isnan(early[3]).all()
    assert early[1].tolist() == [np.iinfo(np.int64).min] * 2
    assert early[2].tolist() == [255] * 2
    assert completed == [True] * 5
    assert [tensor.tolist() for tensor in late] == [[3, 5], [3, 5], [3, 5], [1, 1]]


def changed_send(rank: int, world: int) -> Any:
    """Change a tensor while it is being sent."""
    tensor = numbers(rank, 2)
    work: Any = dist.isend(tensor, 1 - rank)
    tensor += 1
    dist.recv(torch.zeros(2), 1 - rank)
    work.wait()


def changed_result(rank: int, world: int) -> Any:
    """Divide before the sum has arrived."""
    tensor = numbers(rank, 2)
    work: Any = dist.all_reduce(tensor, async_op=True)
    tensor /= world
    work.wait()


@pytest.mark.parametrize(
    ("program", "words"), [(changed_send, "that isend (line"), (changed_result, "that all_reduce (line")]
)
def test_changing_a_buffer_in_flight_is_an_error(program: Program, words: str) -> None:
    """A whole sentence says which, and the way out."""
    for value in run(program, 2).values:
        assert value.startswith("RuntimeError: The tensor " + words)
        assert "was changed before wait()" in value


def in_place_gather(rank: int, world: int) -> Any:
    """Gather into a tensor of which this rank's own part is the input."""
    whole = torch.zeros(2 * world)
    own = whole[2 * rank : 2 * rank + 2].copy_(numbers(rank, 2))
    work: Any = dist.all_gather_single(whole, own, async_op=True)
    work.wait()
    return whole


def test_input_and_output_may_share_memory() -> None:
    """As sharded optimizers do."""
    assert run(in_place_gather, 3).values[0].tolist() == [*numbers(0, 2), *numbers(1, 2), *numbers(2, 2)]


def unfit(rank: int, world: int) -> Any:
    """Exchange rows for which the other rank has no room."""
    dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 3], [2, 2])


def test_rows_that_do_not_fit_are_an_error_with_a_way_out() -> None:
    """Only the receiving rank can know."""
    assert "must be equal" in run(unfit, 2).values[0]


# ---- virtual time


def overlapped(rank: int, world: int) -> Any:
    """Reduce in the background of computing."""
    work: Any = dist.all_reduce(numbers(rank, 100, dtype=torch.uint8), async_op=True)
    compute(5.0)
    work.wait()
    compute(rank)


def test_computing_hides_communication() -> None:
    """2 (alpha + 50 beta) = 4 seconds pass during the 5 of computing."""
    assert run(overlapped, 2, alpha_s=1.0, beta_s_per_byte=0.02).clocks_s == [5.0, 6.0]


def test_compute_is_without_effect_elsewhere() -> None:
    """A harness may serve both transports."""
    assert run(lambda rank, world: compute(1.0), 2, "gloo").failure is None


def ring(rank: int, world: int) -> Any:
    """Reduce a vector around the ring by messages, and sleep for real now and then."""
    vector = numbers(rank, 4 * world, dtype=torch.float64)
    chunks, after, before = list(vector.chunk(world)), (rank + 1) % world, (rank - 1) % world
    naps = np.random.default_rng().uniform(0, 0.004, size=2 * (world - 1))
    for step, nap in enumerate(naps):
        time.sleep(nap)
        adds = step < world - 1
        out, into = (rank - step) % world, (rank - step - 1) % world
        if not adds:
            out, into = (out + 1 + world - 1) % world, (into + 1 + world - 1) % world
        room = torch.empty_like(chunks[into])
        work: Any = dist.isend(chunks[out], after)
        dist.recv(room, before)
        work.wait()
        chunks[into].copy_(chunks[into] + room if adds else room)
    return vector


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 8])
def test_a_ring_of_messages_is_exact_however_long_its_processes_sleep(world_size: int) -> None:
    """Values, rounds, bytes and clocks of two runs are those of the formula."""
    runs = [run(ring, world_size) for _ in range(2)]
    assert runs[0].calls == runs[1].calls
    expected = sum(numbers(rank, 4 * world_size, dtype=torch.float64) for rank in range(world_size))
    for outcome in runs:
        assert outcome.clocks_s == pytest.approx([2 * (world_size - 1) * (1e-6 + 32e-9)] * world_size)
        for value, calls in zip(outcome.values, outcome.calls, strict=True):
            assert value.tolist() == torch.as_tensor(expected).tolist()
            assert max(call.depth for call in calls) == 2 * (world_size - 1)
            assert sum(call.payload_bytes for call in calls if call.op == "isend") == 2 * (world_size - 1) * 32


def test_a_rank_without_torch_can_import_what_it_needs() -> None:
    """The backends import torch only when they join."""
    import subprocess
    import sys

    code = "import sys, grader.ranks.simulated, grader.ranks.traced, grader.network; sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=False).returncode == 0

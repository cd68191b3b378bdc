"""Claims about what hangs, what is refused and how time passes, made with real processes on both backends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from grader.ranks.simulated import compute
from rank_pump import Program, Transport, numbers, run


def gaps(rank: int, _: int) -> Any:
    """Reduce every second element, of which gloo would read and write the wrong ones without a word."""
    dist.all_reduce(numbers(rank, 6)[::2])


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_a_tensor_with_gaps_is_an_error_on_both(transport: Transport) -> None:
    """With the way out."""
    assert run(gaps, 2, transport).values[0].startswith("RuntimeError: The tensor of all_reduce has gaps in memory")


class Seen(TorchDispatchMode):
    """Note every operation of torch that returns floating-point numbers."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self.names: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch.compile is imported, in every rank

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note its name."""
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.names.append(str(func))
        return result


def metered(rank: int, _: int) -> Any:
    """Reduce a vector, at once and later, under a mode that sees all that the program computes."""
    vector = numbers(rank, 6)
    with Seen() as seen:
        shard = vector.new_empty(3)
        dist.reduce_scatter_single(shard, vector)
        work = dist.all_reduce(shard, async_op=True)
        assert work is not None
        work.wait()
    return [name for name in seen.names if "detach" not in name and "view" not in name and "slice" not in name]


def test_what_the_network_computes_is_not_metered() -> None:
    """A mode sees the program's own tensors and views of them, not the copies that travel."""
    assert run(metered, 2).values == [["aten.new_empty.default"]] * 2


# ---- what hangs and what does not


def send_send(rank: int, _: int) -> Any:
    """Send, then receive, on both ranks."""
    dist.send(numbers(rank, 2), 1 - rank)
    dist.recv(torch.zeros(2), 1 - rank)


def isend_wait_first(rank: int, _: int) -> Any:
    """Wait for an isend before the other end has been asked for."""
    work = dist.isend(numbers(rank, 2), 1 - rank)
    assert work is not None
    work.wait()
    dist.recv(torch.zeros(2), 1 - rank)


def only_one_calls(rank: int, _: int) -> Any:
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


def different_calls(rank: int, _: int) -> Any:
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


def changed_send(rank: int, _: int) -> Any:
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


def views_of_one_vector(rank: int, world: int) -> Any:
    """Fill one half of a tensor in flight while computing with the other, and save a reduced tensor for backward."""
    vector = torch.zeros(4, dtype=torch.bfloat16)
    works: list[Any] = [dist.irecv(vector[:2], (rank - 1) % world), dist.irecv(vector[2:3], (rank - 1) % world)]
    vector[3:] += 5
    works += [dist.isend(numbers(0, size, dtype=torch.bfloat16), (rank + 1) % world) for size in (2, 1)]
    for work in works:
        work.wait()
    leaf = torch.ones(2, requires_grad=True)
    activation = leaf * 2
    square = activation * activation
    dist.all_reduce(activation.detach())
    square.sum().backward()
    return [vector, leaf.grad]


@pytest.mark.parametrize("transport", ["simulated", "gloo"])
def test_other_parts_of_a_tensor_and_autograd_do_not_mind(transport: Transport) -> None:
    """Only the very elements in flight are taken away; gloo's writes do not count as changes, so ours do not."""
    vector, gradient = run(views_of_one_vector, 2, transport).values[0]
    assert vector.tolist() == [1, 4, 1, 5]
    assert gradient.tolist() == [16, 16]


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


def unfit(_rank: int, _world: int) -> Any:
    """Exchange rows for which the other rank has no room."""
    dist.all_to_all_single(torch.zeros(4), torch.zeros(4), [1, 3], [2, 2])


def test_rows_that_do_not_fit_are_an_error_with_a_way_out() -> None:
    """Only the receiving rank can know."""
    assert "must be equal" in run(unfit, 2).values[0]


# ---- virtual time


def overlapped(rank: int, _: int) -> Any:
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
    assert run(lambda *_: compute(1.0), 2, "gloo").failure is None


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
    code = "import sys, grader.ranks.simulated, grader.ranks.traced, grader.network; sys.exit('torch' in sys.modules)"
    root = Path(__file__).resolve().parent.parent
    assert subprocess.run([sys.executable, "-c", code], cwd=root, timeout=60, check=False).returncode == 0

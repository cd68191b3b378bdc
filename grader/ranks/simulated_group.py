"""The process group of the simulated network: what a rank contributes leaves as bytes, the answer comes back as bytes.

From launch to `wait()` an asynchronous operation's output reads NaN (signed integers: the least value, unsigned: the
greatest, booleans: as before), so that whoever reads too early sees it.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import Work
from torch.futures import Future

from grader.ranks.operations import Operation, Reporter, buffer_bytes
from grader.ranks.recorded_group import RecordedGroup, refuse_gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from datetime import timedelta

    from torch import Tensor

    from grader.ranks.operations import Link

    Piece = bytes | np.ndarray[Any, np.dtype[np.uint8]]

REDUCTIONS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "sum": torch.add,
    "avg": torch.add,  # divided at the end
    "product": torch.mul,
    "min": torch.minimum,
    "max": torch.maximum,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}

SIGNALLING: Final = {  # NaNs that become another, a quiet one, in any computation: so a write in flight shows
    torch.float64: (torch.int64, 0x7FF4 << 48),
    torch.float32: (torch.int32, 0x7FA0 << 16),
    torch.float16: (torch.int16, 0x7D00),
    torch.bfloat16: (torch.int16, 0x7FA0),
}


SHORT_BYTES: Final = 1 << 14  # what travels within a message's own structure, which costs less than an array beside it


def register(link: Link, world_size: int) -> None:
    """Make `simulated` a backend of torch.distributed in this process, whose groups report over `link`."""
    reporter = Reporter(link)

    def create(opts: Any, _: object) -> SimulatedGroup:
        return SimulatedGroup(opts.group_rank, opts.global_ranks_in_group or range(world_size), reporter)

    dist.Backend.register_backend("simulated", create, extended_api=True, devices=["cpu"])


class SimulatedGroup(RecordedGroup):
    """Send what this rank contributes to the trusted process and return a handle that fetches the answer."""

    def __init__(self, rank: int, ranks: Sequence[int], reporter: Reporter) -> None:
        """Begin as the member number `rank` of the global `ranks`."""
        super().__init__(rank, ranks)
        self.reporter = reporter

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """Return the backend's name."""
        return "simulated"

    def begin(self, operation: Operation, *_: object) -> Work:
        """Post an operation."""
        refuse_gaps(operation)
        refuse_reduction(operation)
        with unseen():
            data = [to_bytes(buffer) for buffer in operation.inputs]
            line = self.reporter.line()
            number = self.reporter.post(operation, self.membership, line, [*map(sendable, data)])
            return SimulatedWork(self, operation, number, line, data)


class SimulatedWork(Work):
    """Stand for an operation in flight; only `wait()` brings its result."""

    def __init__(self, group: SimulatedGroup, operation: Operation, number: int, line: int, data: list[bytes]) -> None:
        """Take the operation's buffers away from the program if it goes on meanwhile."""
        super().__init__()
        self._group, self._operation, self._number = group, operation, number
        self._line, self._source, self._is_done = line, -1, False
        self._guard = Guard(operation, data) if operation.is_async else None

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002  # nothing is slow here
        """Block until every rank that takes part is there, then write the result."""
        if not self._is_done:
            self._is_done = True
            with unseen():
                if self._guard and (words := self._guard.broken()):
                    raise RuntimeError(words.format(call=self._call()))
                self._finish(self._group.reporter.exchange(self._number))
            self._guard = None
        return True

    def _call(self) -> str:
        return self._operation.op + (f" (line {self._line})" if self._line else "")

    def _finish(self, answer: dict[str, object]) -> None:
        """Write the answer into the output buffers."""
        if answer["peer"] in self._group.ranks:
            self._source = self._group.ranks.index(answer["peer"])
        pieces, operation = cast("list[Piece]", answer["data"]), self._operation
        if operation.reduce and operation.outputs:
            pieces = [reduced(operation, pieces)]
        for place, (buffer, piece) in enumerate(zip(operation.outputs, pieces, strict=True)):
            if (room_bytes := buffer_bytes([buffer])) != len(piece):
                room = f"{room_bytes} bytes"
                raise RuntimeError(
                    f"{self._call()} brought {len(piece)} bytes from member {place} of the group, but the tensor for "
                    f"them has room for {room}. What one rank sends and what the other has room for must be equal."
                )
            write(buffer, piece)

    def is_completed(self) -> bool:
        """Wait, so that the answer does not depend on how fast the processes happen to run; return True."""
        return self.wait()

    def is_success(self) -> bool:
        """Wait and return True."""
        return self.wait()

    def exception(self) -> None:
        """Return that nothing went wrong."""

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait."""
        self.wait()

    def result(self) -> list[Tensor]:
        """Wait and return the tensors that hold the result."""
        self.wait()
        return [tensor for buffer in self._operation.outputs for tensor in buffer]

    def get_future(self) -> Future[list[Tensor]]:
        """Wait and return a future that is complete: C++ waits for futures where no one could see it wait."""
        future: Future[list[Tensor]] = Future()
        future.set_result(self.result())
        return future

    def source_rank(self) -> int:
        """Return which member of the group a message came from."""
        return self._source

    _source_rank = source_rank


class Guard:
    """Hold what the buffers of an operation in flight must still hold when it is waited for."""

    def __init__(self, operation: Operation, data: list[bytes]) -> None:
        """Poison the outputs; remember them, and the inputs that are no outputs as well."""
        filled = {tensor.untyped_storage().data_ptr() for buffer in operation.outputs for tensor in buffer}
        for buffer in operation.outputs:
            for tensor in buffer:
                poison(tensor)
        self._outputs = [(buffer, to_bytes(buffer)) for buffer in operation.outputs]
        self._inputs = [
            (buffer, sent)
            for buffer, sent in zip(operation.inputs, data, strict=True)
            if not any(tensor.untyped_storage().data_ptr() in filled for tensor in buffer)
        ]

    def broken(self) -> str:
        """Return the sentence that says which buffer was changed meanwhile, "" if none was."""
        if any(to_bytes(buffer) != poisoned for buffer, poisoned in self._outputs):
            return (
                "The tensor that {call} fills was changed before wait(). "
                "Until wait() returns it belongs to the operation: wait first, then compute with it."
            )
        if any(to_bytes(buffer) != sent for buffer, sent in self._inputs):
            return (
                "The tensor that {call} sends was changed before wait(). "
                "Until wait() returns it may still be read: wait before you change it, or send a copy."
            )
        return ""


def refuse_reduction(operation: Operation) -> None:
    """Raise for reductions that gloo refuses too."""
    if operation.reduce and operation.reduce not in REDUCTIONS:
        raise RuntimeError(f"The network cannot reduce with {operation.reduce}. Use one of {', '.join(REDUCTIONS)}.")
    if operation.reduce in {"band", "bor", "bxor"} and not _is_integral(operation.tensors[0]):
        name, dtype = f"ReduceOp.{operation.reduce.upper()}", operation.tensors[0].dtype
        raise RuntimeError(f"{name} cannot reduce {dtype}: it combines the bits of integers.")


def _is_integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def unseen() -> AbstractContextManager[object]:
    """Keep what the network computes from whoever meters the program's own operations by a dispatch mode."""
    return cast("AbstractContextManager[object]", torch._C._DisableTorchDispatch())


def poison(tensor: Tensor) -> None:
    """Overwrite a tensor with what nobody can take for a result, and what any arithmetic changes."""
    plain = uncounted(tensor)
    plain = torch.view_as_real(plain) if plain.is_complex() else plain
    if plain.dtype in SIGNALLING:
        integer, bits = SIGNALLING[plain.dtype]
        plain.view(integer).fill_(bits)
    elif plain.is_floating_point():
        plain.fill_(float("nan"))
    elif plain.dtype != torch.bool:
        limits = torch.iinfo(plain.dtype)
        plain.fill_(limits.min or limits.max)


def uncounted(tensor: Tensor) -> Tensor:
    """Return a tensor whose writes autograd does not count, as gloo's are not: a saved one may be communicated."""
    return tensor.data


def to_bytes(buffer: Sequence[Tensor]) -> bytes:
    """Return a copy of the bytes of some tensors, one after another."""
    return b"".join([as_array(tensor).tobytes() for tensor in buffer])


def as_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return the elements as numpy sees them; those of a dtype that it lacks as bytes."""
    if tensor.dtype in SIGNALLING and tensor.dtype is not torch.bfloat16:
        return tensor.detach().numpy()
    try:
        return tensor.numpy(force=True)
    except TypeError:
        return tensor.detach().contiguous().flatten().view(torch.uint8).numpy()


def sendable(data: bytes) -> Piece:
    """Return what a message carries for these bytes: themselves if they are few, else an array."""
    return data if len(data) <= SHORT_BYTES else np.frombuffer(data, np.uint8)


def reduced(operation: Operation, pieces: Sequence[Piece]) -> Piece:
    """Reduce what the members contributed, in the order of the group, so that all ranks get the same bits."""
    values = [as_values(piece, operation.tensors[0].dtype) for piece in pieces]
    total = reduce(REDUCTIONS[operation.reduce], values)
    if operation.reduce == "avg":
        total = total.div_(len(values)) if len(values) > 1 else total
    return total.view(torch.uint8).numpy()


def write(buffer: Sequence[Tensor], piece: Piece) -> None:
    """Copy bytes into tensors, one after another."""
    start = 0
    for tensor in buffer:
        end = start + tensor.numel() * tensor.element_size()
        uncounted(tensor).copy_(as_values(piece[start:end], tensor.dtype).view(tensor.shape))
        start = end


def as_values(piece: Piece, dtype: torch.dtype) -> Tensor:
    """Return bytes as a flat tensor; torch cannot view none of them."""
    if not len(piece):
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(bytearray(piece) if isinstance(piece, bytes) else piece, dtype=dtype)

"""Describe an operation of torch.distributed as it begins, and report it: what both backends share.

Imports no torch, so that a rank without it stays light; the tensors in here are the caller's.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    import torch


class Link(Protocol):
    """Name what a backend needs of the connection to the trusted process."""

    submission_path: str

    def send(self, message: dict[str, object]) -> None:
        """Send one message."""

    def receive(self) -> dict[str, Any]:
        """Wait for the next message to the backend and return it."""


@dataclass(frozen=True)
class Membership:
    """Say who a group is: its name and its members' global ranks in the group's own order."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Operation:
    """Describe one operation of one rank.

    `inputs` are the buffers that it contributes: none, one, or one a member; `outputs` those that it fills: one, or one
    a member. A buffer is a list of tensors, more than one only in coalesced operations. `tensors` are those by which
    the operation is known to the user, and on which the ranks must agree.
    """

    op: str
    tensors: Sequence[torch.Tensor]
    inputs: Sequence[Sequence[torch.Tensor]] = ()
    outputs: Sequence[Sequence[torch.Tensor]] = ()
    peer: int | None = None  # a global rank
    tag: int = 0
    reduce: str = ""
    is_async: bool = True

    @property
    def payload_bytes(self) -> int:
        """Return the bytes that this rank contributes; those that it has room for, if it receives a message."""
        return buffer_bytes(self.outputs if self.op in {"recv", "irecv"} else self.inputs)

    def describe(self) -> dict[str, object]:
        """Return the fields of a "post" message that the operation itself knows."""
        dtype = str(self.tensors[0].dtype).removeprefix("torch.") if self.tensors else ""
        shapes = [list(tensor.shape) for tensor in self.tensors]
        shape = [sum(tensor.numel() for tensor in self.tensors)] if len(shapes) > 1 else [*shapes, []][0]
        fields = {"op": self.op, "peer": self.peer, "tag": self.tag, "reduce": self.reduce, "is_async": self.is_async}
        return {**fields, "shape": shape, "dtype": dtype, "payload_bytes": self.payload_bytes}


def buffer_bytes(buffers: Sequence[Sequence[torch.Tensor]]) -> int:
    """Return how many bytes all tensors of some buffers hold together."""
    return sum(tensor.numel() * tensor.element_size() for buffer in buffers for tensor in buffer)


@dataclass
class Reporter:
    """Report a rank's operations in the order in which they begin; autograd's and gloo's threads may call it too."""

    link: Link
    _next: int = 0
    _answers: dict[int, dict[str, Any]] = field(default_factory=dict)  # of operations not yet waited for
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def post(self, operation: Operation, group: Membership, line: int, data: object = None) -> int:
        """Say that an operation begins in this line, before it does, and return its number."""
        place = {"group": list(group.ranks), "group_name": group.name, "line": line}
        with self._lock:
            number, self._next = self._next, self._next + 1
            self.link.send({"is": "post", "n": number, **operation.describe(), **place, "data": data})
        return number

    def wait(self, number: int) -> None:
        """Say that this rank blocks until an operation is complete."""
        with self._lock:
            self.link.send({"is": "wait", "n": number, "line": self.line()})

    def done(self, number: int) -> None:
        """Say that an operation is complete for this rank."""
        with self._lock:
            self.link.send({"is": "done", "n": number})

    def exchange(self, number: int) -> dict[str, Any]:
        """Block until an operation is complete and return the answer; one that came with another's is at hand."""
        with self._lock:
            if number in self._answers:
                self.link.send({"is": "see", "n": number})
                return self._answers.pop(number)
            self.wait(number)
            answer = self.link.receive()
            self._answers |= {other["n"]: other for other in answer.get("also", [])}
            return answer

    def line(self) -> int:
        """Return the line of the submission that is running."""
        return submission_line(self.link.submission_path)


def submission_line(path: str) -> int:
    """Return the line in the innermost frame of this thread that runs the file `path`, 0 if none does."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    return 0 if frame is None else frame.f_lineno


def is_called_by(*names: str) -> bool:
    """Say whether one of torch.distributed's functions `names` called the process group's method that asks.

    `send` is `isend` and a wait; only the stack tells which of the two the user called.
    """
    frame = sys._getframe(2).f_back
    while frame is not None and frame.f_globals.get("__name__") == "torch.distributed.distributed_c10d":
        if frame.f_code.co_name in names:
            return True
        frame = frame.f_back
    return False

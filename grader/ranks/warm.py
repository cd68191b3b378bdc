"""Do once, before ranks are forked, what would otherwise be done for the first time in every one of them.

The first call into a large library binds symbols and touches pages; a rank that is forked afterwards inherits both.
Nothing here starts a thread, and nothing stays joined.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from grader import wire
from grader.ranks import values
from grader.records import Tensor


class Echo:
    """Stand in for the trusted process with two ranks that contribute the same."""

    submission_path = ""

    def __init__(self) -> None:
        """Begin before the first operation."""
        self._reader = wire.FrameReader(values.revive)
        self._last: dict[str, Any] = {}

    def send(self, message: dict[str, Any]) -> None:
        """Take a message through the wire, as a rank's own link does."""
        (received,) = self._reader.feed(wire.encode(message, values.convert))
        self._last = received if received["is"] == "post" else self._last

    def receive(self) -> dict[str, Any]:
        """Answer that the last operation is complete, and that the other rank gave what this one gave."""
        data = [] if self._last["op"] == "isend" else self._last["data"] * 2
        return {"do": "complete", "n": self._last["n"], "data": data, "peer": 1}


def fill_holes() -> None:
    """Take what is free within the heap, so that what a rank allocates lies side by side at the end of it.

    Otherwise nearly every small object of a rank falls into another hole, and so onto a page that has to be copied.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = (
        ctypes.c_void_p,
        [ctypes.c_size_t],
        [ctypes.c_void_p],
    )
    libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    end = libc.sbrk(0)
    for size_bytes in (*range(1 << 16, 1 << 10, -(1 << 10)), *range(1 << 10, 8, -16)):
        while (block := libc.malloc(size_bytes)) < end:
            pass
        libc.free(block)


def warm_up() -> None:
    """Send one tensor each way and reduce it once, if torch has been imported."""
    if "torch.distributed" not in sys.modules:
        return
    import torch
    import torch.distributed as dist

    from grader.ranks import simulated, traced, traced_group  # noqa: F401  # the latter only to have imported them

    torch.set_num_threads(1)
    simulated.join(0, 2, "", Echo())
    gradient = values.revive(Tensor(np.ones(4), "float64", requires_grad=True))
    assert isinstance(gradient, torch.Tensor), "a tensor comes back as one"
    (gradient * 2).detach()
    total = torch.ones(4, dtype=torch.float64)
    dist.all_reduce(total)
    sending = dist.isend(total, 1)
    assert sending is not None, "this process is a member of the world"
    sending.wait()
    values.describe(total / 2)
    simulated.leave()

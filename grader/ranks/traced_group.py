"""The process group that lets gloo do the work and reports it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from torch.distributed import Work

from grader.ranks.operations import Operation, Reporter
from grader.ranks.recorded_group import RecordedGroup, refuse_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.futures import Future

    from grader.ranks.operations import Link

PATIENCE: Final = timedelta(hours=1)  # the trusted process decides what hangs, long before


def register(link: Link, world_size: int) -> None:
    """Make `traced` a backend of torch.distributed in this process, whose groups report over `link`."""
    reporter = Reporter(link)

    def create(opts: Any, _: object) -> TracedGroup:
        ranks = opts.global_ranks_in_group or range(world_size)
        return TracedGroup(opts.group_rank, ranks, reporter, gloo_group(opts.store, opts.group_rank, len(ranks)))

    dist.Backend.register_backend("traced", create, extended_api=True, devices=["cpu"])


def gloo_group(store: Any, rank: int, size: int) -> Any:
    """Return a process group on gloo over the loopback interface.

    A whole `ProcessGroup`, not gloo's own class: that lacks the methods which gather into, or scatter from, one tensor.
    """
    gloo_type: Any = dist.ProcessGroupGloo  # the stubs lack its options
    options = gloo_type._Options()
    options._devices = [gloo_type.create_device(hostname="127.0.0.1")]
    options._timeout = PATIENCE
    gloo = gloo_type(store, rank, size, options)
    group = dist.ProcessGroup(store, rank, size)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    return group


class TracedGroup(RecordedGroup):
    """Report each operation before gloo begins it."""

    def __init__(self, rank: int, ranks: Sequence[int], reporter: Reporter, inner: Any) -> None:
        """Begin as the member number `rank` of the global `ranks`, over the group `inner`."""
        super().__init__(rank, ranks)
        self.reporter, self.inner = reporter, inner

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """Return the backend's name."""
        return "traced"

    def begin(self, operation: Operation, method: str, *args: object) -> Work:
        """Report that an operation begins, then let gloo begin it."""
        refuse_gaps(operation)
        number = self.reporter.post(operation, self.membership, self.reporter.line())
        return TracedWork(self.reporter, number, getattr(self.inner, method)(*args))


class TracedWork(Work):
    """Report when the program begins to wait for an operation, and when it is complete."""

    def __init__(self, reporter: Reporter, number: int, inner: Work) -> None:
        """Begin as operation `number` of this rank."""
        super().__init__()
        self._reporter, self._number, self._inner = reporter, number, inner
        self._is_awaited = self._is_done = False

    def _await(self) -> None:
        if not self._is_awaited and not self._is_done:
            self._is_awaited = True
            self._reporter.wait(self._number)

    def _end(self) -> None:
        if not self._is_done:
            self._is_done = True
            self._reporter.done(self._number)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until gloo has done it."""
        self._await()
        answer = self._inner.wait(timeout)
        self._end()
        return answer

    def get_future(self) -> Future[Any]:
        """Return a future of the result; C++ may wait for it where no one can see, so this counts as waiting."""
        self._await()
        return self._inner.get_future().then(self._ended)

    def _ended(self, future: Future[Any]) -> Any:
        self._end()
        return future.value()

    def is_completed(self) -> bool:
        """Say whether gloo has done it."""
        is_completed = self._inner.is_completed()
        if is_completed:
            self._end()
        return is_completed

    def is_success(self) -> bool:
        """Say whether gloo has done it without an error."""
        return self._inner.is_success()

    def exception(self) -> Any:
        """Return gloo's error, None if there was none."""
        return self._inner.exception()

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def block_current_stream(self) -> None:
        """Wait."""
        self.wait()

    def result(self) -> list[Tensor]:
        """Return the tensors that hold the result."""
        return self._inner.result()

    def source_rank(self) -> int:
        """Return which member of the group a message came from."""
        return self._inner._source_rank()

    _source_rank = source_rank

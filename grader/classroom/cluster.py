"""Grade on a Dask cluster: each thread of each worker has a process of its own, confined as on one machine.

Only this module needs dask.distributed, which is in the dependency group `cluster`.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from grader.classroom.hands import Hands, Pool, error_verdict
from grader.classroom.verdict import Json
from grader.errors import GraderError, UsageError

CONNECT_S: Final = 15
AHEAD: Final = 3  # works for each thread of the cluster
ATTEMPTS: Final = 5  # a work whose worker is lost begins again elsewhere, so many times


@contextmanager
def on_dask(address: str) -> Iterator[Pool]:
    """Yield a pool that is the cluster whose scheduler listens at `address`.

    Raises:
        UsageError: dask.distributed is not installed, or nobody answers there.
        GraderError: the cluster has no worker.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError("`--dask` needs dask.distributed: `nox -s grade -- ... --dask ADDRESS` installs it.") from None
    try:
        client = distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UsageError(f"No Dask scheduler answers at {address}: {error}. Start one with `dask scheduler`.") from None
    try:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError:
            raise GraderError(f"The cluster at {address} has no worker. Start some with `dask worker`.") from None
        yield Pool(lambda work: _submit(client, work), lambda: AHEAD * max(1, sum(client.nthreads().values())))
    finally:
        client.close()


def _submit(client: Any, work: dict[str, Any]) -> Future[Json]:
    """Bring a future of Dask's under the roof of Python's own."""
    ours: Future[Json] = Future()
    theirs = client.submit(grade_there, work, pure=False, retries=ATTEMPTS)

    def tell(done: Any) -> None:
        if done.status == "finished":
            ours.set_result(done.result())
        elif done.status == "error":
            ours.set_result(error_verdict(f"A worker of the cluster could not grade this: {done.exception()}."))
        else:
            ours.cancel()
            ours.set_running_or_notify_cancel()

    theirs.add_done_callback(tell)
    return ours


def grade_there(work: dict[str, Any]) -> Json:
    """Grade one work on a worker of the cluster."""
    return _HANDS.grade(work)


_HANDS = Hands()  # of a worker: its processes begin with its first works
atexit.register(_HANDS.close)

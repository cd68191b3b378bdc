"""The fixture `student`: call a submission by name with plain data, in one process or on several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.exchange import Exchange, Setup
from grader.launch import Job, Launcher
from grader.records import Exercise, RankResult, Talk, Transport

Progress = Callable[[str], None]


def tell_nobody(_words: str) -> None:
    """Take words of progress that nobody wants to read."""


@dataclass
class Student:
    """Run one submission for one check; `close` when the check is over.

    What a verb returns is data that the submission computed. A submission that raises, hangs, dies or answers
    something else makes the verb raise StudentFailure, which is an AssertionError.
    """

    exercise: Exercise
    source: bytes
    harness: bytes | None
    launcher: Launcher
    seed: int
    progress: Progress = tell_nobody
    used: Mapping[str, bytes] = field(default_factory=dict)  # sources of exercises that the submission imports, by slug
    outputs: list[str] = field(default_factory=list)  # what the ranks printed, run by run
    answered: list[Any] = field(default_factory=list)  # the values that came back, in order
    talks: list[Talk] = field(default_factory=list)  # what the ranks said to each other, run by run
    _single: Exchange | None = None

    def call(
        self, name: str, *args: Any, timeout_s: float | None = None, with_arguments: bool = False, **kwargs: Any
    ) -> RankResult:
        """Call a function in one process, which lives as long as the check: module state persists between calls."""
        if self._single is None:
            self.progress("one process")
            self._single = self._start("none", 1)
        limit_s = timeout_s or self.exercise.limits.timeout_s
        try:
            results = self._single.call(name, [args], kwargs, timeout_s=limit_s, with_arguments=with_arguments)
        except BaseException:
            self._single = None
            raise
        self.answered.append(results[0].value)
        return results[0]

    def simulated(
        self,
        name: str,
        per_rank: Sequence[tuple[Any, ...]],
        *,
        common: tuple[Any, ...] = (),
        alpha_s: float = 1e-6,
        beta_s_per_byte: float = 1e-9,
        timeout_s: float | None = None,
        with_arguments: bool = False,
    ) -> list[RankResult]:
        """Call a function on `len(per_rank)` ranks joined by the simulated network; each gets its tuple and `common`.

        A message of n bytes takes `alpha_s + n * beta_s_per_byte` virtual seconds.
        """
        self.progress(f"{len(per_rank)} simulated ranks")
        exchange = self._start("simulated", len(per_rank), alpha_s, beta_s_per_byte)
        return self._call_all(exchange, name, per_rank, common, timeout_s, with_arguments)

    def ranks(
        self,
        name: str,
        per_rank: Sequence[tuple[Any, ...]],
        *,
        common: tuple[Any, ...] = (),
        timeout_s: float | None = None,
        with_arguments: bool = False,
    ) -> list[RankResult]:
        """Call a function on `len(per_rank)` real ranks joined by torch.distributed on gloo."""
        self.progress(f"{len(per_rank)} ranks on gloo")
        exchange = self._start("gloo", len(per_rank))
        return self._call_all(exchange, name, per_rank, common, timeout_s, with_arguments)

    def close(self) -> None:
        """End the process of `call`, if there is one."""
        if self._single is not None:
            self._single.end()
            self.outputs.append(self._single.output())
            self._single = None

    def _call_all(
        self,
        exchange: Exchange,
        name: str,
        per_rank: Sequence[tuple[Any, ...]],
        common: tuple[Any, ...],
        timeout_s: float | None,
        with_arguments: bool,
    ) -> list[RankResult]:
        limit_s = timeout_s or self.exercise.limits.timeout_s
        try:
            arguments = [(*args, *common) for args in per_rank]
            results = exchange.call(name, arguments, {}, timeout_s=limit_s, with_arguments=with_arguments)
        finally:
            calls = tuple(exchange.books.calls(rank) for rank in range(len(per_rank)))
            self.talks.append(Talk(name, exchange.setup.transport, calls))
            exchange.end()
        self.outputs.append(exchange.output())
        self.answered.append([result.value for result in results])
        return results

    def _start(
        self, transport: Transport, world_size: int, alpha_s: float = 1e-6, beta_s_per_byte: float = 1e-9
    ) -> Exchange:
        slug, limits = self.exercise.slug, self.exercise.limits
        modules = {**self.used, slug: self.source} | ({} if self.harness is None else {"harness": self.harness})
        job = Job(
            world_size,
            {f"{name}.py": source for name, source in modules.items()},
            limits,
            self.exercise.preload,
            network=transport == "gloo",
            shared=transport != "simulated",
        )
        setup = Setup(
            slug,
            self.source,
            self.harness is not None,
            world_size,
            transport,
            self.seed,
            limits,
            alpha_s,
            beta_s_per_byte,
            tuple(self.used),
        )
        return Exchange(self.launcher.start(job), setup)

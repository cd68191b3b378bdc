"""Drive the ranks of one run until each has answered, or until the run is decided otherwise.

All that is read from a rank is data that may lie; nothing in here runs or imports a submission.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from grader import failures, hangs, wire
from grader.channels import BrokenRank, Channels, Message
from grader.errors import GraderError, StudentFailure
from grader.hangs import Standing
from grader.launch import Ending, Running
from grader.network import Collectives, Network
from grader.records import Group, Limits, Opaque, RankResult, Transport

RAISED_GRACE_S = 0.2  # how long the others may still answer after one rank raised
STILL_S = 1.0  # how long nothing may move before ranks that cannot go on are declared a deadlock
DUMP_GRACE_S = 2.0  # how long after the deadline a busy rank's interpreter may still say in which line it is
LOOK_S = 0.1  # how often clocks and quotas are looked at while nothing arrives
ANSWERS = frozenset({"returned", "raised", "missing", "signature", "unsendable"})


@dataclass(frozen=True)
class Setup:
    """Say what the ranks of a run load and how they are joined."""

    name: str  # the submission's module name; its file is `name`.py
    source: bytes
    harness: bool
    world_size: int
    transport: Transport
    seed: int
    limits: Limits
    alpha_s: float = 1e-6
    beta_s_per_byte: float = 1e-9
    used: tuple[str, ...] = ()  # modules that the submission may import, loaded before it


@dataclass
class RankState:
    """Hold what the trusted process knows of one rank."""

    rank: int
    ready: bool = False
    waiting: Mapping[str, Any] | None = None  # the operation in which it blocks
    wait_line: int = 0
    answer: Message | None = None


class Exchange:
    """Talk to the ranks of one run: `call`, perhaps several times, then `end`."""

    def __init__(self, running: Running, setup: Setup) -> None:
        """Send each rank what it needs to load the submission and to join the others."""
        self.running, self.setup = running, setup
        self.file = f"{setup.name}.py"
        self.source = setup.source.decode("utf-8-sig", "replace").splitlines()
        self.channels = Channels(running, setup.limits)
        self.ranks = [RankState(rank) for rank in range(setup.world_size)]
        self.network = Network(setup.world_size, setup.alpha_s, setup.beta_s_per_byte)
        self.books: Network | Collectives = self.network if setup.transport == "simulated" else Collectives()
        self.function, self.moved_at = "", time.monotonic()
        for state in self.ranks:
            self.channels.send(state.rank, self.start_message(state.rank))

    def start_message(self, rank: int) -> Message:
        """Return the "start" message of one rank."""
        setup, exercise_dir = self.setup, self.running.exercise_dir
        return {
            "do": "start",
            "rank": rank,
            "world_size": setup.world_size,
            "transport": setup.transport,
            "store": str(self.running.scratch_dir / "store"),
            "name": setup.name,
            "submission": str(exercise_dir / self.file),
            "used": {name: str(exercise_dir / f"{name}.py") for name in setup.used},
            "harness": str(exercise_dir / "harness.py") if setup.harness else None,
            "seed": setup.seed,
            "timeout_s": setup.limits.timeout_s,
        }

    def call(
        self,
        function: str,
        per_rank: Sequence[tuple[Any, ...]],
        kwargs: dict[str, Any],
        *,
        timeout_s: float,
        with_arguments: bool = False,
    ) -> list[RankResult]:
        """Call `function` on every rank and return the results in rank order.

        Raises StudentFailure for whatever the submission did instead of answering; the ranks are gone then.
        """
        self.function = self.file if function.startswith("harness.") else function
        groups = subgroups(per_rank)
        for state, args in zip(self.ranks, per_rank, strict=True):
            state.answer = None
            self.network.resume(state.rank)
            call = {"do": "call", "function": function, "args": tuple(args), "kwargs": kwargs, "groups": groups}
            self.channels.send(state.rank, {**call, "timeout_s": timeout_s, "with_arguments": with_arguments})
        try:
            self.await_answers(time.monotonic() + timeout_s, timeout_s)
        except BrokenRank as broken:
            self.fail(f"{self.who(broken.rank)}{broken.words}", broken.kind, rank=broken.rank)
        return [self.result(state) for state in self.ranks]

    def await_answers(self, deadline: float, timeout_s: float) -> None:
        """Receive messages until every rank has returned; fail as soon as that cannot happen any more."""
        while any(map(self.is_live, self.ranks)):
            self.receive(max(0.0, min(LOOK_S, deadline - time.monotonic())))
            self.fail_if_any_did()
            self.advance_network()
            self.fail_if_still()
            if time.monotonic() > deadline:
                self.fail_at_deadline(timeout_s)
            if self.running.over_quota():
                limit = self.setup.limits.disk_bytes >> 20
                self.fail(f"Your code wrote more than {limit} MiB to disk. Write less, or not at all.", "quota")
        self.fail_if_any_did()

    # ---- what the ranks say --------------------------------------------------------------------------------------

    def receive(self, wait_s: float) -> None:
        """Take note of what arrives within `wait_s`."""
        for rank, message in self.channels.receive(wait_s):
            self.moved_at = time.monotonic()
            try:
                self.handle(self.ranks[rank], message)
            except StudentFailure as failure:  # ranks that disagree, or an operation that makes no sense
                self.fail(failure.message, failure.kind, rank=failure.rank, line=failure.line)
            except (
                KeyError,
                TypeError,
                ValueError,
                wire.WireError,
            ):  # only a rank that writes to the channel itself can cause these
                raise BrokenRank(rank, "Your code sent a broken answer over a channel of ours.", "broken") from None

    def handle(self, state: RankState, message: Message) -> None:
        """Take note of one message."""
        kind = message["is"]
        if kind in ANSWERS:
            wire.refuse_depth(message)
            state.answer, state.waiting = message, None
            self.network.finish(state.rank)
        elif kind == "ready":
            state.ready = True
        elif kind == "post":
            self.books.post(state.rank, message)
        elif kind == "wait":
            self.handle_wait(state, message)
        elif kind == "done" and isinstance(self.books, Collectives):
            self.books.done(state.rank, message)
            if state.waiting is not None and state.waiting["n"] == message["n"]:
                state.waiting = None
        elif kind == "see":
            self.network.see(state.rank, message)
        elif kind == "compute":
            self.network.compute(state.rank, message)
        else:
            raise ValueError(kind)

    def handle_wait(self, state: RankState, message: Message) -> None:
        """Take note that a rank blocks until one of its operations is complete."""
        if isinstance(self.books, Network):
            self.books.wait(state.rank, message)
            state.waiting = self.books.waiting(state.rank)
        else:
            state.waiting = self.books.entry(state.rank, message).post
        state.wait_line = int(message["line"])

    def advance_network(self) -> None:
        """Let the simulated network decide what happens next, once every live rank waits for it."""
        while isinstance(self.books, Network) and self.books.blocked:
            try:
                replies = self.books.advance()
            except StudentFailure as failure:
                self.fail(failure.message, failure.kind, rank=failure.rank, line=failure.line)
            if not replies:
                self.fail_deadlocked()
            for rank, message in replies:
                self.ranks[rank].waiting = None
                self.channels.send(rank, message)

    # ---- how a run fails -----------------------------------------------------------------------------------------

    def is_live(self, state: RankState) -> bool:
        """Return whether a rank may still say something of its own accord."""
        return state.answer is None and state.rank not in self.channels.ended

    def has_failed(self, state: RankState) -> bool:
        """Return whether a rank has ended, or answered with anything but a value."""
        return state.rank in self.channels.ended if state.answer is None else state.answer["is"] != "returned"

    def fail_if_any_did(self) -> None:
        """If a rank failed, give the others a moment and report the one that failed of itself."""
        if not any(map(self.has_failed, self.ranks)):
            return
        end = time.monotonic() + RAISED_GRACE_S
        while any(map(self.is_live, self.ranks)) and time.monotonic() < end:
            self.receive(0.02)
        failed = list(filter(self.has_failed, self.ranks))
        ended = [state for state in failed if state.answer is None]
        origins = ended or [state for state in failed if not failures.is_consequence(state.answer)] or failed
        self.fail_of(origins[0])

    def fail_of(self, state: RankState) -> NoReturn:
        """Report what one rank did instead of returning a value."""
        who = self.who(state.rank)
        if state.answer is not None:
            words, line = failures.describe_answer(state.answer, self.function, self.file, who)
            self.fail(words, str(state.answer["is"]), rank=state.rank, line=line)
        ending = self.end()[state.rank]
        if ending.refused:
            raise GraderError(f"The sandbox could not be applied to a rank: {ending.refused}.")
        line = self.channels.printed[state.rank].last_line_of(self.file)
        when = f"during {self.function}" if state.ready else "while it was loaded"
        place = hangs.at_line(line, self.source)
        self.fail(f"{who}{failures.describe_ending(ending)} {when}{place}.", "died", rank=state.rank, line=line)

    def fail_if_still(self) -> None:
        """Declare a deadlock on gloo when nothing moved for a while and no waiting rank can go on."""
        if not isinstance(self.books, Collectives) or time.monotonic() - self.moved_at < STILL_S:
            return
        live = list(filter(self.is_live, self.ranks))
        waiting = [(state.rank, state.waiting["n"]) for state in live if state.waiting is not None]
        if live and len(waiting) == len(live) and not any(self.books.can_go_on(*place) for place in waiting):
            self.fail_deadlocked()

    def fail_deadlocked(self) -> NoReturn:
        """Report that every live rank waits and none can go on."""
        standings = list(map(self.standing, self.ranks))
        line = next((s.line for s in standings if s.state == "waiting" and s.line), None)
        words = hangs.describe_standings(standings, self.source)
        self.fail(f"Deadlock in {self.function}: no rank can go on.\n{words}", "deadlock", line=line)

    def fail_at_deadline(self, timeout_s: float) -> NoReturn:
        """Report who was still computing when the time was up, and where the others were."""
        end = time.monotonic() + DUMP_GRACE_S
        while any(map(self.is_unseen, self.ranks)) and time.monotonic() < end:
            self.receive(0.05)
        standings = list(map(self.standing, self.ranks))
        line = next((s.line for s in standings if s.state in {"starting", "computing"} and s.line), None)
        head = f"{self.function} did not return within {timeout_s:g} s."
        if any(s.state == "starting" for s in standings):
            way_out = 'Move what is slow under `if __name__ == "__main__":`.'
            head = f"{self.file} was still being loaded after {timeout_s:g} s. {way_out}"
        self.fail(f"{head}\n{hangs.describe_standings(standings, self.source)}", "timeout", line=line)

    def is_unseen(self, state: RankState) -> bool:
        """Return whether a rank computes and has not yet said where: its own clock began later than ours."""
        return self.is_live(state) and state.waiting is None and not self.channels.printed[state.rank].has_dump

    def standing(self, state: RankState) -> Standing:
        """Return where a rank stands, for the words of a hang."""
        if state.answer is not None:
            return Standing(state.rank, "returned" if state.answer["is"] == "returned" else "raised")
        if state.rank in self.channels.ended:
            return Standing(state.rank, "ended")
        if state.waiting is not None:
            return Standing(state.rank, "waiting", state.waiting, state.wait_line)
        line = self.channels.printed[state.rank].last_line_of(self.file)
        return Standing(state.rank, "computing" if state.ready else "starting", None, line)

    def fail(self, message: str, kind: str, *, rank: int | None = None, line: int | None = None) -> NoReturn:
        """End the run and raise the sentence."""
        self.end()
        raise StudentFailure(message, kind=kind, rank=rank, line=line or None, output=self.output())

    def who(self, rank: int) -> str:
        """Return "rank 1: " where there are several ranks."""
        return f"rank {rank}: " if self.setup.world_size > 1 else ""

    # ---- what comes of it ----------------------------------------------------------------------------------------

    def result(self, state: RankState) -> RankResult:
        """Return what one rank answered; refuse values that have no data form."""
        assert state.answer is not None, "every rank has answered"
        value = state.answer["value"]
        if (foreign := first_opaque(value)) is not None:
            allowed = "numbers, strings, lists, tuples, dictionaries, numpy arrays and torch tensors"
            words = f"{self.who(state.rank)}{self.function} returned a {foreign} object. It may return {allowed}."
            self.fail(words, "opaque", rank=state.rank)
        printed = self.channels.printed[state.rank].text()
        clock_s = self.network.clock_s(state.rank)
        return RankResult(
            state.rank, value, self.books.calls(state.rank), printed, tuple(state.answer["arguments"]), clock_s
        )

    def output(self) -> str:
        """Return what the ranks printed, each rank's under its own heading where there are several."""
        texts = [printed.text() for printed in self.channels.printed]
        if self.setup.world_size == 1:
            return texts[0]
        return "".join(f"rank {rank} printed:\n{text.rstrip()}\n" for rank, text in enumerate(texts) if text.strip())

    def end(self) -> tuple[Ending, ...]:
        """End all ranks and return how each ended; may be called again."""
        released = all(state.answer is not None for state in self.ranks) and not self.channels.ended
        if not self.channels.is_closed:
            for state in self.ranks if released else ():
                self.channels.send(state.rank, {"do": "release"})
            self.channels.close()
        return self.running.end(released=released)


def subgroups(per_rank: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Return the subgroups that the arguments name, each once, in order of appearance over the ranks."""
    found: dict[tuple[int, ...], None] = {}
    pending: list[Any] = list(reversed(per_rank))
    while pending:
        value = pending.pop()
        if isinstance(value, Group) and value.ranks is not None:
            found[value.ranks] = None
        elif type(value) in (list, tuple):
            pending += reversed(value)
        elif type(value) is dict:
            pending += reversed(list(value.values()))
    return [list(ranks) for ranks in found]


def first_opaque(value: Any) -> str | None:
    """Return the type name of the first part of `value` that has no data form; None if all of it has."""
    if isinstance(value, Opaque):
        return value.type_name
    parts = value if type(value) in (list, tuple) else [*value, *value.values()] if type(value) is dict else ()
    return next((name for part in parts if (name := first_opaque(part)) is not None), None)

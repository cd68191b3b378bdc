"""Drive the ranks of one run until each has answered, or until the run is decided otherwise.

All that is read from a rank is data that may lie; nothing in here runs or imports a submission.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from grader import failures, hangs, wire
from grader.errors import GraderError, StudentFailure
from grader.hangs import Standing
from grader.launch import Ending, Running
from grader.network import Collectives, Network
from grader.posts import Post
from grader.printed import Printed
from grader.records import Group, Limits, Opaque, RankResult, Transport

RAISED_GRACE_S = 0.2  # how long the others may still answer after one rank raised
STILL_S = 1.0  # how long nothing may move before ranks that cannot go on are declared a deadlock
MAX_PRINTED_BYTES = 16 << 20
CHUNK_BYTES = 1 << 18
ANSWERS = frozenset({"returned", "raised", "missing", "signature", "unsendable"})
KINDS = ANSWERS | {"ready", "post", "wait", "done", "compute"}


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


class RankState:
    """Hold what the trusted process knows of one rank."""

    def __init__(self, rank: int, limits: Limits) -> None:
        """Begin before the rank has said anything."""
        self.rank = rank
        self.reader = wire.FrameReader()
        self.printed = Printed(limits.output_bytes)
        self.waiting: Post | None = None
        self.wait_line = 0
        self.ready = self.ended = False
        self.answer: dict[str, Any] | None = None
        self.outgoing = bytearray()

    @property
    def live(self) -> bool:
        """Return whether the rank may still say something of its own accord."""
        return self.answer is None and not self.ended

    def standing(self, dump_line: int = 0) -> Standing:
        """Return where the rank stands, for the words of a hang."""
        if self.answer is not None:
            return Standing(self.rank, "returned" if self.answer["is"] == "returned" else "raised")
        if self.ended:
            return Standing(self.rank, "ended")
        if self.waiting is not None:
            return Standing(self.rank, "waiting", self.waiting, self.wait_line)
        return Standing(self.rank, "computing" if self.ready else "starting", None, dump_line)


class Exchange:
    """Talk to the ranks of one run: `call`, perhaps several times, then `end`."""

    def __init__(self, running: Running, setup: Setup) -> None:
        """Send each rank what it needs to load the submission and to join the others."""
        self.running, self.setup = running, setup
        self.source = setup.source.decode("utf-8-sig", "replace").splitlines()
        self.ranks = [RankState(rank, setup.limits) for rank in range(setup.world_size)]
        self.network = Network(setup.world_size, setup.alpha_s, setup.beta_s_per_byte)
        self.books = Collectives()  # of what ranks on gloo report
        self.moved_at = time.monotonic()
        self.selector = selectors.DefaultSelector()
        for state, channel, output in zip(self.ranks, running.channels, running.outputs, strict=True):
            self.selector.register(channel, selectors.EVENT_READ, ("channel", state))
            self.selector.register(output, selectors.EVENT_READ, ("output", state))
        for state in self.ranks:
            self.send(state, self.start_message(state.rank))

    def start_message(self, rank: int) -> dict[str, Any]:
        """Return the "start" message of one rank."""
        name, setup = self.setup.name, self.setup
        return {
            "do": "start",
            "rank": rank,
            "world_size": setup.world_size,
            "transport": setup.transport,
            "store": str(self.running.scratch_dir / "store"),
            "name": name,
            "submission": str(self.running.exercise_dir / f"{name}.py"),
            "harness": str(self.running.exercise_dir / "harness.py") if setup.harness else None,
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
        groups = subgroups(per_rank)
        for state, args in zip(self.ranks, per_rank, strict=True):
            state.answer = None
            self.network.resume(state.rank)
            call = {"do": "call", "function": function, "args": tuple(args), "kwargs": kwargs, "groups": groups}
            self.send(state, {**call, "timeout_s": timeout_s, "with_arguments": with_arguments})
        self.await_answers(function, time.monotonic() + timeout_s, timeout_s)
        return [self.result(state, function) for state in self.ranks]

    def await_answers(self, function: str, deadline: float, timeout_s: float) -> None:
        """Pump messages until every rank has returned; raise StudentFailure as soon as that cannot happen any more."""
        while any(state.live for state in self.ranks):
            self.pump(self.patience(deadline))
            self.advance_network(function)
            if any(self.failed(state) for state in self.ranks):
                self.fail_with_origin(function)
            self.check_still(function)
            if time.monotonic() > deadline:
                self.fail_at_deadline(function, timeout_s)
            if self.running.over_quota():
                limit = self.setup.limits.disk_bytes >> 20
                self.fail(f"Your code wrote more than {limit} MiB to disk. Write less, or not at all.", "quota")
        if any(self.failed(state) for state in self.ranks):
            self.fail_with_origin(function)

    def patience(self, deadline: float) -> float:
        """Return how long to wait for the next message before looking at clocks again."""
        return max(0.0, min(0.1, deadline - time.monotonic()))

    # ---- messages ------------------------------------------------------------------------------------------------

    def send(self, state: RankState, message: dict[str, Any]) -> None:
        """Send one message, now as far as the socket takes it and the rest while pumping."""
        state.outgoing += wire.encode(message)
        self.flush(state)

    def flush(self, state: RankState) -> None:
        """Push pending bytes; watch for room in the socket only while some are left."""
        channel = self.running.channels[state.rank]
        try:
            while state.outgoing:
                del state.outgoing[: channel.send(memoryview(state.outgoing)[:CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:  # the rank is gone; its end of the channel will say so when it is read
            state.outgoing.clear()
        if not state.ended:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if state.outgoing else 0)
            self.selector.modify(channel, events, ("channel", state))

    def pump(self, wait_s: float) -> None:
        """Read what is there, waiting at most `wait_s` for something to come."""
        for key, events in self.selector.select(wait_s):
            kind, state = key.data
            if kind == "channel" and events & selectors.EVENT_WRITE:
                self.flush(state)
            if events & selectors.EVENT_READ:
                self.read(key.fileobj, kind, state)

    def read(self, source: Any, kind: str, state: RankState) -> None:
        """Read one chunk from a channel or an output."""
        try:
            data = source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(source)
            state.ended |= kind == "channel"
        elif kind == "output":
            self.take_output(state, data)
        else:
            self.take_frames(state, data)

    def take_output(self, state: RankState, data: bytes) -> None:
        """Keep what a rank printed, and stop a rank that floods."""
        state.printed.add(data)
        if state.printed.total > MAX_PRINTED_BYTES:
            limit = MAX_PRINTED_BYTES >> 20
            self.fail(f"{self.who(state)}Your code printed more than {limit} MiB. Print less inside loops.", "output")

    def take_frames(self, state: RankState, data: bytes) -> None:
        """Decode and handle the messages that `data` completes."""
        try:
            for message in state.reader.feed(data):
                self.handle(state, message)
        except (wire.WireError, KeyError, TypeError, ValueError, AttributeError) as error:
            # Only a rank that writes to our channel itself can send such a thing.
            self.fail(f"{self.who(state)}Your code sent a broken answer ({type(error).__name__}).", "broken")

    def handle(self, state: RankState, message: dict[str, Any]) -> None:
        """Take note of one message."""
        kind = message["is"]
        if kind not in KINDS:
            raise wire.WireError("unknown kind of message")
        self.moved_at = time.monotonic()
        if kind in ANSWERS:
            state.answer, state.waiting = message, None
            self.network.finish(state.rank)
        elif kind == "ready":
            state.ready = True
        elif kind == "post":
            self.handle_post(state, message)
        elif kind == "wait":
            self.handle_wait(state, message)
        elif kind == "done":
            self.books.done(state.rank, message)
            if state.waiting is not None and state.waiting["n"] == message["n"]:
                state.waiting = None
        elif kind == "compute" and self.setup.transport == "simulated":
            self.network.compute(state.rank, message)

    def handle_post(self, state: RankState, message: dict[str, Any]) -> None:
        """Take note of an operation that begins; fail the run if ranks disagree about it."""
        try:
            (self.network if self.setup.transport == "simulated" else self.books).post(state.rank, message)
        except StudentFailure as failure:
            self.fail(failure.message, failure.kind, rank=failure.rank, line=failure.line)

    def handle_wait(self, state: RankState, message: dict[str, Any]) -> None:
        """Take note that a rank blocks until one of its operations is complete."""
        if self.setup.transport == "simulated":
            self.network.wait(state.rank, message)
            state.waiting = self.network.waiting(state.rank)
        else:
            state.waiting = self.books.entry(state.rank, message).post
        state.wait_line = int(message["line"])

    def advance_network(self, function: str) -> None:
        """Let the simulated network decide what happens next, once every live rank waits for it."""
        if self.setup.transport != "simulated":
            return
        while self.network.blocked and any(state.live for state in self.ranks):
            if any(self.failed(state) for state in self.ranks):
                return
            replies = self.network.advance()
            if not replies:
                self.fail_deadlocked(function)
            for rank, message in replies:
                self.ranks[rank].waiting = None
                self.send(self.ranks[rank], message)

    # ---- failures ------------------------------------------------------------------------------------------------

    def failed(self, state: RankState) -> bool:
        """Return whether a rank has ended or answered with anything but a value."""
        return state.ended and state.answer is None or (state.answer is not None and state.answer["is"] != "returned")

    def fail_with_origin(self, function: str) -> NoReturn:
        """Give the other ranks a moment, then report the rank that failed of itself."""
        end = time.monotonic() + RAISED_GRACE_S
        while any(state.live for state in self.ranks) and time.monotonic() < end:
            self.pump(0.02)
        broken = [state for state in self.ranks if self.failed(state)]
        ended = [state for state in broken if state.answer is None]
        origins = ended or [state for state in broken if not failures.is_consequence(state.answer)] or broken
        state = origins[0]
        if state.answer is None:
            self.fail_ended(state, function)
        file = f"{self.setup.name}.py"
        words, line = failures.describe_answer(state.answer, function.rpartition(".")[2], file, self.who(state))
        self.fail(words, state.answer["is"], rank=state.rank, line=line)

    def fail_ended(self, state: RankState, function: str) -> NoReturn:
        """Report a rank whose process ended before it answered."""
        ending = self.end()[state.rank]
        if ending.refused:
            raise GraderError(f"The sandbox could not be applied to a rank: {ending.refused}.")
        line = state.printed.last_line_of(f"{self.setup.name}.py")
        place = hangs.at_line(line, self.source)
        where = "while it was loaded" if not state.ready else f"during {function.rpartition('.')[2]}"
        self.fail(f"{self.who(state)}{failures.describe_ending(ending)} {where}{place}.", "died", rank=state.rank, line=line)

    def check_still(self, function: str) -> None:
        """Declare a deadlock on gloo when nothing moved for a while and no waiting rank can go on."""
        live = [state for state in self.ranks if state.live]
        if self.setup.transport != "gloo" or not live or time.monotonic() - self.moved_at < STILL_S:
            return
        waiting = [(state.rank, state.waiting) for state in live if state.waiting is not None]
        if len(waiting) == len(live) and not any(self.books.can_go_on(rank, post["n"]) for rank, post in waiting):
            self.fail_deadlocked(function)

    def fail_deadlocked(self, function: str) -> NoReturn:
        """Report that every live rank waits and none can go on."""
        standings = [state.standing() for state in self.ranks]
        line = next((s.line for s in standings if s.state == "waiting" and s.line), None)
        head = f"Deadlock in {function.rpartition('.')[2]}: no rank can go on."
        self.fail(f"{head}\n{hangs.describe_standings(standings, self.source)}", "deadlock", line=line)

    def fail_at_deadline(self, function: str, timeout_s: float) -> NoReturn:
        """Report who was still computing when the time was up, and where the others were."""
        file = f"{self.setup.name}.py"
        standings = [state.standing(state.printed.last_line_of(file)) for state in self.ranks]
        busy = [s for s in standings if s.state in {"starting", "computing"}]
        line = next((s.line for s in busy if s.line), None)
        if any(s.state == "starting" for s in standings):
            way_out = 'Move what is slow under `if __name__ == "__main__":`.'
            head = f"{file} was still being loaded after {timeout_s:g} s. {way_out}"
        else:
            head = f"{function.rpartition('.')[2]} did not return within {timeout_s:g} s."
        self.fail(f"{head}\n{hangs.describe_standings(standings, self.source)}", "timeout", line=line)

    def fail(self, message: str, kind: str, *, rank: int | None = None, line: int | None = None) -> NoReturn:
        """End the run and raise the sentence."""
        self.end()
        raise StudentFailure(message, kind=kind, rank=rank, line=line or None, output=self.output())

    def who(self, state: RankState) -> str:
        """Return "rank 1: " where there are several ranks."""
        return f"rank {state.rank}: " if self.setup.world_size > 1 else ""

    # ---- results -------------------------------------------------------------------------------------------------

    def result(self, state: RankState, function: str) -> RankResult:
        """Return what one rank answered; refuse values that have no data form."""
        assert state.answer is not None, "every rank has answered"
        value, name = state.answer["value"], function.rpartition(".")[2]
        if (foreign := first_opaque(value)) is not None:
            allowed = "numbers, strings, lists, tuples, dictionaries, numpy arrays and torch tensors"
            self.fail(f"{self.who(state)}{name} returned {foreign}. It may return {allowed}.", "opaque", rank=state.rank)
        simulated = self.setup.transport == "simulated"
        calls = (self.network if simulated else self.books).calls(state.rank)
        clock_s = self.network.clock_s(state.rank) if simulated else 0.0
        arguments = tuple(state.answer["arguments"])
        return RankResult(state.rank, value, calls, state.printed.text(), arguments, clock_s)

    def output(self) -> str:
        """Return what the ranks printed, each rank's under its own heading where there are several."""
        texts = [(state.rank, state.printed.text()) for state in self.ranks]
        if self.setup.world_size == 1:
            return texts[0][1]
        return "".join(f"rank {rank} printed:\n{text.rstrip()}\n" for rank, text in texts if text.strip())

    def end(self) -> tuple[Ending, ...]:
        """End all ranks and return how each ended; may be called again."""
        released = all(state.answer is not None and not state.ended for state in self.ranks)
        if self.selector.get_map() is not None:
            for state in self.ranks if released else ():
                self.send(state, {"do": "release"})
            self.drain()
            self.selector.close()
        return self.running.end(released=released)

    def drain(self) -> None:
        """Take what the ranks have printed so far."""
        for state, output in zip(self.ranks, self.running.outputs, strict=True):
            while state.printed.total <= MAX_PRINTED_BYTES:
                try:
                    data = output.recv(CHUNK_BYTES)
                except OSError:
                    break
                if not data:
                    break
                state.printed.add(data)


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
        return f"a {value.type_name} object"
    parts = value if type(value) in (list, tuple) else [*value, *value.values()] if type(value) is dict else ()
    return next((name for part in parts if (name := first_opaque(part)) is not None), None)

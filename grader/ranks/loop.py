"""Answer the trusted process from inside a rank: load the submission, join the group, call what is asked for.

Nothing that decides a verdict is in this process. What leaves it is data, and a rank that lies must compute the right
answer to be believed.
"""

from __future__ import annotations

import builtins
import difflib
import faulthandler
import inspect
import random
import socket
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from grader import wire
from grader.ranks import loading, values

BUILTINS = dict(vars(builtins))
CHUNK_BYTES = 1 << 18
HELD = frozenset({"post", "see", "compute"})  # sent together with what follows, which saves a system call each
MAX_HELD_BYTES = 1 << 20


class Ended(Exception):
    """Say that the trusted process has closed the channel."""


class Link:
    """Exchange messages with the trusted process; also what a backend sends its operations through."""

    def __init__(self, channel: socket.socket) -> None:
        """Take over the connected `channel`."""
        self.submission_path = ""
        self.holds_posts = False  # nothing is decided on the simulated network before this rank waits or answers
        self._held = bytearray()
        self._channel = channel
        self._reader = wire.FrameReader(values.revive)
        self._messages: list[dict[str, Any]] = []
        self._sending = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; values without a data form become a name. Safe from any thread."""
        frame = wire.encode(message, values.convert)
        with self._sending:
            self._held += frame
            if not (self.holds_posts and message["is"] in HELD and len(self._held) < MAX_HELD_BYTES):
                self._channel.sendall(self._held)
                self._held.clear()

    def receive(self) -> dict[str, Any]:
        """Wait for the next message and return it."""
        while not self._messages:
            data = self._channel.recv(CHUNK_BYTES)
            if not data:
                raise Ended
            self._messages += self._reader.feed(data)
        return self._messages.pop(0)


def serve(channel: socket.socket) -> bool:
    """Serve one run over `channel` until it is released; return whether the process may serve another one."""
    link = Link(channel)
    try:
        rank = Rank(link, link.receive())
        if not rank.prepare():
            link.receive()  # until released, so that the end of this process is not taken for a crash
            return False
        while (message := link.receive())["do"] == "call":
            rank.call(message)
        rank.leave()
        return threading.active_count() == 1
    except Ended:
        return False


class Rank:
    """Hold what one rank of one run has loaded and joined."""

    def __init__(self, link: Link, start: dict[str, Any]) -> None:
        """Keep the "start" message's settings."""
        self.link, self.start = link, start
        self.groups = values.Groups()
        self.modules: dict[str, ModuleType] = {}
        link.submission_path = start["submission"]
        link.holds_posts = start["transport"] == "simulated"

    def prepare(self) -> bool:
        """Load the submission and join the group; report and return False if that raised."""
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a TextIOWrapper in a rank
        faulthandler.enable(file=2)
        seed_everything(self.start["seed"] * 1009 + self.start["rank"])
        with Watchdog(self.start["timeout_s"]):
            if not (self.attempt("load", self.load) and self.attempt("join", self.join)):
                return False
        self.link.send({"is": "ready"})
        return True

    def attempt(self, phase: str, step: Callable[[], object]) -> bool:
        """Run one step; report whatever it raises and return whether it did not."""
        try:
            step()
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001  # SystemExit too: it ends the call, never the verdict
            restore_builtins()
            described = loading.describe_exception(error, self.start["submission"])
            self.link.send({"is": "raised", "phase": phase, **described})
            return False
        finally:
            restore_builtins()
            flush()
        return True

    def load(self) -> None:
        """Import what the submission uses, the submission, then the harness."""
        for name, path in self.start["used"].items():
            loading.load(name, path)
        self.modules["submission"] = loading.load(self.start["name"], self.start["submission"])
        if self.start["harness"] is not None:
            self.modules["harness"] = loading.load("harness", self.start["harness"])

    def join(self) -> None:
        """Join the other ranks over the transport of this run."""
        backend = self.backend()
        if backend is not None:
            backend.join(self.start["rank"], self.start["world_size"], self.start["store"], self.link)

    def leave(self) -> None:
        """Leave the group and forget the submission, so that a warm process can serve another run."""
        faulthandler.cancel_dump_traceback_later()
        backend = self.backend()
        if backend is not None:
            backend.leave()
        for name in (*self.start["used"], self.start["name"], "harness"):
            sys.modules.pop(name, None)

    def backend(self) -> Any:
        """Return the module that joins ranks over this run's transport; None for a single process."""
        if self.start["transport"] == "simulated":
            from grader.ranks import simulated

            return simulated
        if self.start["transport"] == "gloo":
            from grader.ranks import traced

            return traced
        return None

    def call(self, message: dict[str, Any]) -> None:
        """Call the function that `message` names and send what it returned or raised."""
        function = self.find(message["function"])
        if function is not None:
            with Watchdog(message["timeout_s"]):
                self.attempt("call", lambda: self.answer(function, message))

    def find(self, name: str) -> Callable[..., Any] | None:
        """Return the function called `name`, the harness's for `harness.f`; report if there is none."""
        where, _, attribute = name.rpartition(".")
        module = self.modules["harness" if where else "submission"]
        function = getattr(module, attribute, None)
        if callable(function):
            found: Callable[..., Any] = function
            return found
        names = [key for key, item in vars(module).items() if inspect.isfunction(item)]
        close = difflib.get_close_matches(attribute, names, n=1)
        kind = "nothing" if function is None else type(function).__name__
        self.link.send({"is": "missing", "name": attribute, "found": kind, "close": close[0] if close else ""})
        return None

    def answer(self, function: Callable[..., Any], message: dict[str, Any]) -> None:
        """Call `function` and send its value; a call that its signature refuses is reported as such."""
        self.groups.create(message["groups"])
        args, kwargs = self.groups.fill(message["args"]), self.groups.fill(message["kwargs"])
        if message["function"].startswith("harness."):
            args = (self.modules["submission"], *args)
        elif (refusal := refuse(function, args, kwargs)) is not None:
            self.link.send({"is": "signature", **refusal})
            return
        value = function(*args, **kwargs)
        restore_builtins()
        flush()
        arguments = list(args) if message["with_arguments"] else []
        try:
            wire.refuse_depth([value, arguments])
            self.link.send({"is": "returned", "value": value, "arguments": arguments})
        except wire.WireError as error:
            self.link.send({"is": "unsendable", "message": str(error)})


def refuse(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return why `function` cannot be called with these arguments, or None if it can."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a callable without one: let the call itself decide
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return {"signature": str(signature)[:300], "message": str(error)[:300], "given": len(args) + len(kwargs)}
    return None


class Watchdog:
    """Write the stack to standard error shortly before the deadline, so that an endless loop has a line number."""

    def __init__(self, timeout_s: float) -> None:
        """Remember the deadline of this step."""
        self.timeout_s = timeout_s

    def __enter__(self) -> None:
        """Arm a C thread that needs no interpreter lock."""
        faulthandler.dump_traceback_later(max(0.8 * self.timeout_s, self.timeout_s - 0.5), file=2)

    def __exit__(self, *_: object) -> None:
        """Disarm it."""
        faulthandler.cancel_dump_traceback_later()


def restore_builtins() -> None:
    """Undo what the submission did to Python's built-in functions, on which this loop relies."""
    vars(builtins).update(BUILTINS)


def flush() -> None:
    """Push what the submission printed towards the trusted process, whatever it did to its streams."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001  # None, closed, replaced: printing is never a reason to fail
            continue


def seed_everything(seed: int) -> None:
    """Give this rank fresh random state of its own, equal in every run with the same seed."""
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also prepares every accelerator: 18 ms

"""Speak with the ranks of one run over their sockets, and keep what they print; nothing is decided here."""

from __future__ import annotations

import selectors
import socket
from typing import Any

from grader import wire
from grader.launch import Running
from grader.printed import Printed
from grader.records import Limits

CHUNK_BYTES = 1 << 18
MAX_PRINTED_BYTES = 16 << 20

Message = dict[str, Any]


class BrokenRank(Exception):
    """Say that a rank did what no rank does by itself: it sent no message of ours, or printed without end."""

    def __init__(self, rank: int, words: str, kind: str) -> None:
        """Keep which rank, the sentence, and the kind of failure."""
        super().__init__(words)
        self.rank, self.words, self.kind = rank, words, kind


class Channels:
    """Hold one channel and one output a rank; `ended` are the ranks whose channel is closed."""

    def __init__(self, running: Running, limits: Limits) -> None:
        """Listen to all ranks at once."""
        self.printed = [Printed(limits.output_bytes) for _ in running.channels]
        self.ended: set[int] = set()
        self._channels, self._outputs = running.channels, running.outputs
        self._readers = [wire.FrameReader() for _ in running.channels]
        self._outgoing = [bytearray() for _ in running.channels]
        self._selector = selectors.DefaultSelector()
        for rank, (channel, output) in enumerate(zip(self._channels, self._outputs, strict=True)):
            self._selector.register(channel, selectors.EVENT_READ, ("channel", rank))
            self._selector.register(output, selectors.EVENT_READ, ("output", rank))

    def send(self, rank: int, message: Message) -> None:
        """Send one message, now as far as the socket takes it and the rest while receiving."""
        self._outgoing[rank] += wire.encode(message)
        self._flush(rank)

    def receive(self, wait_s: float) -> list[tuple[int, Message]]:
        """Return what the ranks have sent, waiting at most `wait_s` for the first of it; raise BrokenRank."""
        received: list[tuple[int, Message]] = []
        for key, events in self._selector.select(wait_s):
            kind, rank = key.data
            if events & selectors.EVENT_WRITE:
                self._flush(rank)
            if events & selectors.EVENT_READ and isinstance(key.fileobj, socket.socket):
                data = self._read(key.fileobj, kind, rank)
                received += self._take(kind, rank, data) if data else []
        return received

    def close(self) -> None:
        """Take what was printed so far and stop listening; the sockets are the launcher's to close."""
        if self._selector.get_map() is None:
            return
        for printed, output in zip(self.printed, self._outputs, strict=True):
            while printed.total <= MAX_PRINTED_BYTES and (data := _read_now(output)):
                printed.add(data)
        self._selector.close()

    @property
    def is_closed(self) -> bool:
        """Return whether nobody listens any more."""
        return self._selector.get_map() is None

    def _flush(self, rank: int) -> None:
        """Push pending bytes; watch for room in the socket only while some are left."""
        channel, pending = self._channels[rank], self._outgoing[rank]
        if rank in self.ended:
            pending.clear()
            return
        try:
            while pending:
                del pending[: channel.send(pending[:CHUNK_BYTES])]
        except BlockingIOError:
            pass
        except OSError:  # the rank is gone; reading its channel will say so
            pending.clear()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if pending else 0)
        if self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, ("channel", rank))

    def _read(self, source: socket.socket, kind: str, rank: int) -> bytes:
        data = _read_now(source)
        if data == b"":
            self._selector.unregister(source)
            if kind == "channel":
                self.ended.add(rank)
        return data or b""

    def _take(self, kind: str, rank: int, data: bytes) -> list[tuple[int, Message]]:
        if kind == "channel":
            try:
                return [(rank, message) for message in self._readers[rank].feed(data)]
            except wire.WireError:
                raise BrokenRank(rank, "Your code sent a broken answer over a channel of ours.", "broken") from None
        self.printed[rank].add(data)
        if self.printed[rank].total > MAX_PRINTED_BYTES:
            words = f"Your code printed more than {MAX_PRINTED_BYTES >> 20} MiB. Print less inside loops."
            raise BrokenRank(rank, words, "output")
        return []


def _read_now(source: socket.socket) -> bytes | None:
    """Return what is there: b"" at the end, None if there is nothing yet."""
    try:
        return source.recv(CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # reset: the rank died with something unread
        return b""

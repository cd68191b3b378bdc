"""The simulated network: every message, byte and second of it.

A discrete-event simulation in virtual time. Nothing is decided until every live rank waits, so how fast the real
processes happen to run changes nothing. Each rank has one full-duplex port. A message of n bytes takes
alpha + n * beta and occupies its sender's way out and its receiver's way in; a collective occupies both ways of all
its members for the time of its ring (`collectives.ring_traffic`), and counts as one link in a chain of messages.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from grader.collectives import Collectives, Entry, Meeting
from grader.posts import MESSAGES, RECEIVES, broken, mismatch, ring_traffic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grader.records import Call

__all__ = ["Collectives", "Network", "mismatch"]

IN_FLIGHT_LIMIT_BYTES: Final = 1 << 30  # posted and not yet waited for, all ranks together


class Network:
    """Relay what the ranks post and keep their clocks."""

    def __init__(self, world_size: int, alpha_s: float = 1e-6, beta_s_per_byte: float = 1e-9) -> None:
        """Connect `world_size` ranks, all clocks at zero."""
        self._alpha_s, self._beta_s_per_byte = alpha_s, beta_s_per_byte
        self._books = Collectives(at_once=False)
        self._clocks_s = [0.0] * world_size
        self._seen = [0] * world_size  # the longest chain of messages whose end a rank has waited for
        self._out_free_s = [0.0] * world_size
        self._in_free_s = [0.0] * world_size
        self._live = set(range(world_size))
        self._awaited: dict[int, Entry] = {}
        self._met: list[Meeting] = []  # of two posts or more, since the last advance
        self._ready: list[Meeting] = []  # complete, not yet scheduled
        self._scheduled: set[Meeting] = set()
        self._any_source: list[Entry] = []  # receives that have no sender yet
        self._open: list[list[Entry]] = [[] for _ in range(world_size)]  # posted, the answer not yet given
        self._in_flight_bytes = 0

    def post(self, rank: int, message: Mapping[str, object]) -> None:
        """Take the beginning of an operation; raise StudentFailure if there is no such operation."""
        entry = self._books.post(rank, message)
        if max(entry.post["group"]) >= len(self._clocks_s):
            raise broken(rank, "began an operation of a group with ranks that do not exist")
        entry.launch_s, entry.seen = self._clocks_s[rank], self._seen[rank]
        self._weigh(entry)
        self._open[rank].append(entry)
        if entry.meeting:
            self._note(entry.meeting)
        else:
            self._any_source.append(entry)

    def wait(self, rank: int, message: Mapping[str, object]) -> None:
        """Let a rank block until its operation is complete."""
        entry = self._books.entry(rank, message)
        if rank in self._awaited or entry not in self._open[rank]:
            raise broken(rank, "waited for one operation twice")
        self._awaited[rank] = entry

    def see(self, rank: int, message: Mapping[str, object]) -> None:
        """Take note that a rank waits for an operation whose answer it already has."""
        entry = self._books.entry(rank, message)
        if entry in self._open[rank] or entry.is_done:
            raise broken(rank, "waited for one operation twice")
        self._finish(entry, rank)

    def compute(self, rank: int, message: Mapping[str, object]) -> None:
        """Let virtual time pass in one rank."""
        seconds = message.get("seconds")
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise broken(rank, "computed for a time that is no number of seconds")
        self._clocks_s[rank] += seconds

    def finish(self, rank: int) -> None:
        """Take a rank out: it returned, raised or died."""
        self._live.discard(rank)
        self._awaited.pop(rank, None)

    def resume(self, rank: int) -> None:
        """Take a rank in again that had finished: it is called once more."""
        self._live.add(rank)

    @property
    def blocked(self) -> bool:
        """Say whether every live rank waits, so that the network may decide."""
        return bool(self._live) and len(self._awaited) == len(self._live)

    def waiting(self, rank: int) -> Mapping[str, object] | None:
        """Return the post for which a rank waits, None if it does not."""
        return self._awaited[rank].post if rank in self._awaited else None

    def calls(self, rank: int) -> tuple[Call, ...]:
        """Return the record of every operation that a rank began, in its order."""
        return self._books.calls(rank)

    def clock_s(self, rank: int) -> float:
        """Return the virtual time of a rank."""
        return self._clocks_s[rank]

    def advance(self) -> list[tuple[int, dict[str, object]]]:
        """Move on to the next moment at which ranks are released; return what each is told, nothing in a deadlock.

        An operation is scheduled only if it starts no later than that moment: what a rank posts afterwards cannot start
        earlier. Raises StudentFailure if ranks which meet did not call the same thing.
        """
        self._refuse_mismatches()
        while True:
            release_s = min(map(self._release_s, self._awaited), default=math.inf)
            start_s, meeting, receive = self._earliest()
            if meeting is None or start_s > release_s:
                released = sorted(rank for rank in self._awaited if self._release_s(rank) == release_s < math.inf)
                return [(rank, self._release(rank, release_s)) for rank in released]
            if receive is not None:
                meeting = self._take(receive, meeting.members[0])
            self._schedule(meeting)

    def _weigh(self, entry: Entry) -> None:
        """Count the bytes that a rank really contributed, whatever its post says."""
        post, data = entry.post, entry.post["data"] or []
        if len(data) != _pieces(entry) or not all(map(_is_buffer, data)):
            raise broken(post["rank"], f"called {post['op']} with something else than its data")
        if post["op"] not in RECEIVES:
            post["payload_bytes"] = sum(map(_buffer_bytes, data))
            self._in_flight_bytes += post["payload_bytes"]
        if self._in_flight_bytes > IN_FLIGHT_LIMIT_BYTES:
            limit = f"{IN_FLIGHT_LIMIT_BYTES:,} bytes"
            raise broken(post["rank"], f"and the others hold {limit} in operations that nobody has waited for")

    def _note(self, meeting: Meeting) -> None:
        if len(meeting.entries) > 1:
            self._met.append(meeting)
        if meeting.is_complete:
            self._ready.append(meeting)

    def _refuse_mismatches(self) -> None:
        """Look only now, in the order of ranks, so that the same program is refused with the same words every time."""
        met, self._met = self._met, []
        for meeting in sorted(met, key=_order):
            meeting.refuse_mismatch()

    def _release_s(self, rank: int) -> float:
        """Return when a waiting rank goes on: never, as long as its operation is not scheduled."""
        meeting = self._awaited[rank].meeting
        return max(self._clocks_s[rank], meeting.end_s) if meeting in self._scheduled else math.inf

    def _earliest(self) -> tuple[float, Meeting | None, Entry | None]:
        """Return the operation that can start first, and the receive from any source that would be part of it."""
        candidates = [(meeting, None) for meeting in self._ready] + self._offers()
        starts = ((self._start_s(meeting), *_order(meeting), meeting, receive) for meeting, receive in candidates)
        start_s, _, _, meeting, receive = min(starts, key=lambda start: start[:3], default=(math.inf, 0, 0, None, None))
        return start_s, meeting, receive

    def _offers(self) -> list[tuple[Meeting, Entry | None]]:
        """Return what could be the next message of each receive from any source that is first in its queue."""
        first: dict[object, Entry] = {}
        for receive in self._any_source:
            post = receive.post
            first.setdefault((post["rank"], post["tag"], post["group_name"], tuple(post["group"])), receive)
        return [
            (Meeting((source, receive.post["rank"]), {source: sent, receive.post["rank"]: receive}), receive)
            for receive in first.values()
            for source in receive.post["group"]
            if (sent := self._books.next_sent(receive, source))
        ]

    def _take(self, receive: Entry, source: int) -> Meeting:
        """Let a receive from any source take the next message of this one."""
        self._any_source.remove(receive)
        meeting = self._books.pair(receive, source)
        meeting.refuse_mismatch()
        self._ready.append(meeting)
        return meeting

    def _start_s(self, meeting: Meeting) -> float:
        launch_s = max(entry.launch_s for entry in meeting.entries.values())
        return max([launch_s, *(ports[rank] for ports, rank in self._ports(meeting))])

    def _ports(self, meeting: Meeting) -> list[tuple[list[float], int]]:
        """Return the ways that a meeting occupies: both of every member, but one of each end of a message."""
        if _is_message(meeting):
            sender, receiver = meeting.members
            return [(self._out_free_s, sender), (self._in_free_s, receiver)]
        ranks = meeting.members if len(meeting.members) > 1 else ()
        return [(ports, rank) for ports in (self._out_free_s, self._in_free_s) for rank in ranks]

    def _schedule(self, meeting: Meeting) -> None:
        """Fix when an operation happens, and how many messages have led to its end."""
        self._ready.remove(meeting)
        self._scheduled.add(meeting)
        meeting.start_s = self._start_s(meeting)
        meeting.end_s = meeting.start_s + self._duration_s(meeting)
        links = 1 if len(meeting.members) > 1 else 0
        meeting.depth = links + max(entry.seen for entry in meeting.entries.values())
        for ports, rank in self._ports(meeting):
            ports[rank] = meeting.end_s

    def _duration_s(self, meeting: Meeting) -> float:
        messages, sent_bytes = 1, meeting.payload_bytes
        if not _is_message(meeting):
            op = next(iter(meeting.entries.values())).post["op"]
            messages, sent_bytes = ring_traffic(op, len(meeting.members), meeting.payload_bytes)
        return messages * self._alpha_s + sent_bytes * self._beta_s_per_byte

    def _release(self, rank: int, release_s: float) -> dict[str, object]:
        """Let a rank go on with what its operation brought it, and with all else that has ended by then."""
        entry = self._awaited.pop(rank)
        self._clocks_s[rank] = release_s
        complete = {"do": "complete", **self._give(entry, rank)}
        self._finish(entry, rank)
        ended = [
            each for each in self._open[rank] if each.meeting in self._scheduled and each.meeting.end_s <= release_s
        ]
        return {**complete, "also": [self._give(each, rank) for each in ended]}

    def _give(self, entry: Entry, rank: int) -> dict[str, object]:
        """Return the answer of an operation, which a rank gets once."""
        self._open[rank].remove(entry)
        meeting = entry.meeting or Meeting(())
        return {"n": entry.post["n"], "data": _answer(meeting, rank), "peer": meeting.members[0]}

    def _finish(self, entry: Entry, rank: int) -> None:
        meeting = entry.meeting or Meeting(())
        entry.is_done = True
        self._seen[rank] = max(self._seen[rank], meeting.depth)
        self._forget(meeting, rank)

    def _forget(self, meeting: Meeting, rank: int) -> None:
        """Drop the data of an operation once everyone who gets some of it has it."""
        entries = list(meeting.entries.values())
        is_over = rank == meeting.members[1] if _is_message(meeting) else all(entry.is_done for entry in entries)
        for entry in entries if is_over else ():
            self._in_flight_bytes -= entry.post["payload_bytes"] if entry.post["data"] else 0
            entry.post["data"] = None


def _is_buffer(piece: object) -> bool:
    return isinstance(piece, bytes) or isinstance(getattr(piece, "nbytes", None), int)


def _buffer_bytes(piece: Any) -> int:
    return len(piece) if isinstance(piece, bytes) else int(piece.nbytes)


def _is_message(meeting: Meeting) -> bool:
    return next(iter(meeting.entries.values())).post["op"] in MESSAGES


def _order(meeting: Meeting) -> tuple[int, int]:
    """Return what decides between operations at the same time: the lowest rank, then its count of operations."""
    rank = min(meeting.entries)
    return rank, meeting.entries[rank].post["n"]


def _pieces(entry: Entry) -> int:
    """Return how many buffers a rank contributes."""
    op, members = entry.post["op"], len(entry.post["group"])
    if op in {"reduce_scatter", "all_to_all"}:
        return members
    if op in {"broadcast", "scatter"}:
        return (members if op == "scatter" else 1) * (entry.post["rank"] == entry.post["peer"])
    return int(op not in {"recv", "irecv", "barrier"})


def _answer(meeting: Meeting, rank: int) -> list[object]:
    """Return the buffers that one member gets out of an operation."""
    post, place = meeting.entries[rank].post, meeting.members.index(rank)
    data = [meeting.entries[member].post["data"] or [] for member in meeting.members]
    if _is_message(meeting):
        return data[0] if place == 1 else []
    if post["op"] in {"reduce_scatter", "all_to_all"}:
        return [pieces[place] for pieces in data]
    if post["op"] in {"broadcast", "scatter"}:
        root = data[meeting.members.index(post["peer"])]
        return [root[place]] if post["op"] == "scatter" else root * (rank != post["peer"])
    is_for_all = post["op"] in {"all_reduce", "all_gather"}
    return [pieces[0] for pieces in data if pieces] if is_for_all or rank == post["peer"] else []

"""Pair what the ranks post: the k-th collective of a group, the k-th message of a channel.

Both transports keep their books here, so that a mismatch is the same sentence on either.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from grader.errors import StudentFailure
from grader.posts import (
    COLLECTIVES,
    MESSAGES,
    RECEIVES,
    ROOTED,
    SENDS,
    Post,
    broken,
    describe,
    mismatch,
    read_post,
    ring_traffic,
)
from grader.records import Call

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

POST_LIMIT: Final = 200_000  # of one run, so that a loop without end cannot fill the trusted process


@dataclass(eq=False)
class Entry:
    """Hold one operation as one rank sees it; a receive from any source has no meeting before a sender is chosen."""

    post: Post
    meeting: Meeting | None = None
    is_done: bool = False
    launch_s: float = 0.0  # the rank's clock when it posted
    done_s: float = 0.0  # and, on gloo, when it was complete for this rank
    seen: int = 0  # the longest chain of messages whose end the rank had waited for when it posted


@dataclass(eq=False)
class Meeting:
    """Bring together what its members posted for one operation, and when the simulated network let it happen."""

    members: tuple[int, ...]  # of a message: sender, receiver
    entries: dict[int, Entry] = field(default_factory=dict)
    start_s: float = 0.0
    end_s: float = 0.0
    depth: int = 0

    @property
    def is_complete(self) -> bool:
        """Say whether every member has posted."""
        return len(self.entries) == len(self.members)

    @property
    def payload_bytes(self) -> int:
        """Return the payload of the member that contributes most; of a message, what its sender sends."""
        posts = [entry.post for entry in self.entries.values()]
        sent = [post["payload_bytes"] for post in posts if post["op"] not in RECEIVES]
        return max(sent or [post["payload_bytes"] for post in posts], default=0)

    def refuse_mismatch(self) -> None:
        """Raise StudentFailure if the post of the lowest rank and another one differ."""
        first, *others = (self.entries[rank].post for rank in sorted(self.entries))
        for other in others:
            if words := mismatch(first, other):
                raise StudentFailure(words, kind="mismatch", rank=other["rank"], line=other["line"])


class Collectives:
    """Keep what every rank posted and has completed."""

    def __init__(self, *, at_once: bool = True) -> None:
        """Start empty books; a mismatch is raised by the post that reveals it, unless it is left to the caller."""
        self.at_once = at_once
        self.entries: defaultdict[int, list[Entry]] = defaultdict(list)  # by rank
        self._meetings: defaultdict[Hashable, list[Meeting]] = defaultdict(list)
        self._counts: Counter[Hashable] = Counter()
        self._takes_any: set[int] = set()  # ranks that received from any source
        self._began_s: float | None = None  # when the first operation of the run was posted

    def post(self, rank: int, message: Mapping[str, object]) -> Entry:
        """Enter the beginning of an operation; raise StudentFailure if there is none such, or for a mismatch."""
        post = read_post(rank, message)
        self._refuse_nonsense(post)
        entry = Entry(post, launch_s=self._now_s())
        self.entries[rank].append(entry)
        if post["op"] in COLLECTIVES:
            self._meet(entry, _key(post), tuple(post["group"]))
        elif post["peer"] is None:
            self._takes_any.add(rank)
        else:
            self.pair(entry, post["peer"])
        return entry

    def entry(self, rank: int, message: Mapping[str, object]) -> Entry:
        """Return the operation of a rank that a "wait" or "done" message names."""
        number, entries = message.get("n"), self.entries[rank]
        if type(number) is not int or not 0 <= number < len(entries):
            raise broken(rank, "named an operation that it never began")
        return entries[number]

    def done(self, rank: int, message: Mapping[str, object]) -> None:
        """Enter that a rank's operation number `n` is complete for it."""
        entry = self.entry(rank, message)
        entry.is_done, entry.done_s = True, self._now_s()

    def can_go_on(self, rank: int, number: int) -> bool:
        """Return whether everyone whom operation `number` of a rank needs has begun it too."""
        entry = self.entries[rank][number]
        if entry.meeting is None:
            return any(self.next_sent(entry, source) for source in entry.post["group"])
        return entry.meeting.is_complete

    def calls(self, rank: int) -> tuple[Call, ...]:
        """Return the record of every operation that a rank began, in its order."""
        return tuple(_call(entry, is_real=self.at_once) for entry in self.entries[rank])

    def pair(self, entry: Entry, peer: int) -> Meeting:
        """Let a message meet its other end: the k-th send of a channel with its k-th receive."""
        rank = entry.post["rank"]
        members = (rank, peer) if entry.post["op"] in SENDS else (peer, rank)
        return self._meet(entry, _channel(entry.post, peer), members)

    def next_sent(self, receive: Entry, source: int) -> Entry | None:
        """Return what a source has sent that a receive from any source would take first from it."""
        key = _channel(receive.post, source)
        number, meetings = self._counts[key, receive.post["rank"]], self._meetings[key]
        return meetings[number].entries.get(source) if number < len(meetings) else None

    def _now_s(self) -> float:
        """Return the real seconds since the first operation of the run."""
        now_s = time.monotonic()
        self._began_s = now_s if self._began_s is None else self._began_s
        return now_s - self._began_s

    def _meet(self, entry: Entry, key: Hashable, members: tuple[int, ...]) -> Meeting:
        rank, meetings = entry.post["rank"], self._meetings[key]
        number = self._counts[key, rank]
        self._counts[key, rank] += 1
        if number == len(meetings):
            meetings.append(Meeting(members))
        entry.meeting = meeting = meetings[number]
        meeting.entries[rank] = entry
        is_guess = entry.post["op"] in MESSAGES and members[1] in self._takes_any  # which message went where?
        if self.at_once and not is_guess:
            meeting.refuse_mismatch()
        return meeting

    def _refuse_nonsense(self, post: Post) -> None:
        rank, peer, words = post["rank"], post["peer"], ""
        if post["n"] != len(self.entries[rank]):
            raise broken(rank, "did not count its operations one by one")
        if post["n"] >= POST_LIMIT:
            raise broken(rank, f"began more than {POST_LIMIT} operations in one run")
        if peer is None and post["op"] in SENDS | ROOTED:
            raise broken(rank, f"called {post['op']} without naming another rank")
        if post["op"] in MESSAGES and peer == rank:
            words = "that is itself. A message needs two ranks: copy the tensor instead."
        elif peer is not None and peer not in post["group"]:
            words = f"but the group is ranks {post['group']}. Name a rank of the group."
        if words:
            words = f"rank {rank} called {describe(post)}, {words}"
            raise StudentFailure(words, kind="mismatch", rank=rank, line=post["line"])


def _key(post: Post) -> Hashable:
    return post["group_name"], tuple(post["group"])


def _channel(post: Post, peer: int) -> Hashable:
    ends = (post["rank"], peer) if post["op"] in SENDS else (peer, post["rank"])
    return ends, post["tag"], _key(post)


def _call(entry: Entry, *, is_real: bool) -> Call:
    post, meeting = entry.post, entry.meeting or Meeting(())
    takes = post["op"] in RECEIVES
    return Call(
        sequence=post["n"],
        op=post["op"],
        group=tuple(post["group"]),
        peer=meeting.members[0] if takes and meeting.members else post["peer"],
        shape=tuple(post["shape"]),
        dtype=post["dtype"],
        payload_bytes=meeting.payload_bytes if takes and meeting.entries else post["payload_bytes"],
        ring_bytes=_ring_bytes(post, meeting),
        line=post["line"],
        depth=meeting.depth,
        start_s=entry.launch_s if is_real else meeting.start_s,
        end_s=entry.done_s if is_real else meeting.end_s,
        completed=entry.is_done,
        posted_s=entry.launch_s,
    )


def _ring_bytes(post: Post, meeting: Meeting) -> int:
    if post["op"] in MESSAGES:
        return post["payload_bytes"] if post["op"] in SENDS else 0
    return ring_traffic(post["op"], len(meeting.members), meeting.payload_bytes)[1]

"""Say in words where each rank of a run stands, and find out which of them can go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from grader.posts import describe

State = Literal["starting", "computing", "waiting", "returned", "raised", "ended"]


@dataclass(frozen=True)
class Standing:
    """Say where one rank stands; `post` is the operation it waits in, `line` the submission's line (0 if unknown)."""

    rank: int
    state: State
    post: Mapping[str, object] | None = None
    line: int = 0


def describe_standings(standings: Iterable[Standing], source: list[str]) -> str:
    """Return one line a rank: what it waits in, or that it has returned, raised, ended or still computes."""
    lines = [f"rank {s.rank} {_words(s)}{at_line(s.line, source)}" for s in standings]
    return "\n".join(lines) if len(lines) > 1 else lines[0].replace("rank 0", "It", 1)


def _words(standing: Standing) -> str:
    if standing.state == "waiting" and standing.post is not None:
        return f"waits in {describe({**standing.post, 'line': 0})}"
    words = {
        "starting": "was still loading the file",
        "computing": "was still computing",
        "waiting": "waits",
        "returned": "has returned",
        "raised": "has raised an exception",
        "ended": "has ended",
    }
    return words[standing.state]


def at_line(line: int, source: list[str]) -> str:
    """Return " at line 31: dist.all_reduce(x)", or nothing where the line is not known."""
    if not 0 < line <= len(source):
        return ""
    text = source[line - 1].strip()
    return f" at line {line}: {text[:100]}{'…' if len(text) > 100 else ''}"

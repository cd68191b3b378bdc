"""Recognise what a student thought: a known wrong repair that fails alike, or a mistake that a check named."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from grader.classroom.verdict import Verdict
from grader.records import Outcome

Signature = tuple[tuple[str, Outcome], ...]

# The same thought stands on another line of a submission, and on a busy machine it gets more time.
ACCIDENTAL: Final = re.compile(r"\bline \d+\b|\b[\d.]+ s\b")
NAMED: Final = re.compile(r"^\s*that is (.+)$", re.MULTILINE)  # the checks' own words for a mistake they know
MOST_BELIEFS: Final = 2


def signature(verdict: Verdict) -> tuple[Signature, str] | None:
    """Return what a wrong repair is recognised by: how each check ended, and what the first failing one said."""
    first = verdict.result.first_failure
    if first is None or first.outcome is not Outcome.FAILED:
        return None
    outcomes = tuple((check.promise.name, check.outcome) for check in verdict.result.checks)
    return outcomes, ACCIDENTAL.sub("", first.message)


def beliefs_by_signature(known: Sequence[tuple[str, Verdict]]) -> Mapping[tuple[Signature, str], str]:
    """Return what was believed, for each way to fail that known wrong repairs of one exercise have."""
    found: dict[tuple[Signature, str], list[str]] = {}
    for belief, verdict in known:
        if (way := signature(verdict)) is not None:
            found.setdefault(way, []).append(belief)
    return {way: "\nor: ".join(beliefs[:MOST_BELIEFS]) for way, beliefs in found.items()}


def recognise(verdict: Verdict, beliefs: Mapping[tuple[Signature, str], str]) -> str:
    """Return the belief behind a failure, or "" if it is not known.

    With the class's seed all submissions get the same inputs, so the same mistake has the same wrong values.
    """
    way = signature(verdict)
    if way is None:
        return ""
    if way in beliefs:
        return beliefs[way]
    named = NAMED.search(way[1])
    return f"The answer is {named[1].rstrip('.')}." if named else ""

"""Read how results become points: `grading.toml`, whose comments explain it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from grader.errors import BrokenExercise, UsageError
from grader.tables import Table

NAME: Final = "grading.toml"
CHOICES: Final = {
    "partial": ("beyond_starter", "checks", "none"),
    "held_out": ("count", "report", "off"),
    "observation": ("count", "leave_out"),
    "count": ("off", "answered", "right"),
    "columns": ("total", "chapters", "exercises"),
}


@dataclass(frozen=True)
class Policy:
    """Hold the choices of one class; the defaults are those of the file that comes with the course."""

    partial: str = "beyond_starter"
    held_out: str = "count"
    observation: str = "count"
    deadline: datetime | None = None
    chapter_deadlines: dict[int, datetime] = field(default_factory=dict)
    grace_minutes: int = 15
    percent_per_day: int = 10
    percent_at_most: int = 50
    quiz: str = "off"
    quiz_points: int = 5
    columns: str = "chapters"

    @property
    def has_deadline(self) -> bool:
        """Say whether anything can be late."""
        return self.deadline is not None or bool(self.chapter_deadlines)

    def deadline_of(self, chapter: int) -> datetime | None:
        """Return the deadline of a chapter's exercises, its own before the general one."""
        return self.chapter_deadlines.get(chapter, self.deadline)

    def late_days(self, chapter: int, committed_s: int) -> int:
        """Return how many days after the deadline have begun at that time, 0 if it was kept."""
        deadline = self.deadline_of(chapter)
        if deadline is None:
            return 0
        late_s = committed_s - deadline.timestamp()
        return int(-(-late_s // 86400)) if late_s > 60 * self.grace_minutes else 0

    def after_lateness(self, points: int, late_days: int) -> int:
        """Return the points that are left, rounded down."""
        percent = min(self.percent_at_most, late_days * self.percent_per_day)
        return points * (100 - percent) // 100


def read(file: Path | None, root: Path) -> Policy:
    """Return the policy in `file`, or else that of the course, or else the default one.

    Raises:
        UsageError: the file is not as it should be; `path:line: fact`.
    """
    chosen = file or root / NAME
    if file is None and not chosen.exists():
        return Policy()
    try:
        return _policy(Table.read(chosen))
    except BrokenExercise as error:
        raise UsageError(f"{error} {NAME} beside README.md shows all entries.") from None


def _policy(table: Table) -> Policy:
    points, late, quiz, gradebook = (
        table.inner(table.take(name, dict, {}), name) for name in ("points", "late", "quiz", "gradebook")
    )
    default = Policy()
    policy = Policy(
        partial=_choice(points, "partial", default.partial),
        held_out=_choice(points, "held_out", default.held_out),
        observation=_choice(points, "observation", default.observation),
        deadline=_deadline(late, "deadline"),
        chapter_deadlines=_chapter_deadlines(late),
        grace_minutes=_number(late, "grace_minutes", default.grace_minutes),
        percent_per_day=_number(late, "percent_per_day", default.percent_per_day),
        percent_at_most=_number(late, "percent_at_most", default.percent_at_most, most=100),
        quiz=_choice(quiz, "count", default.quiz),
        quiz_points=_number(quiz, "points", default.quiz_points),
        columns=_choice(gradebook, "columns", default.columns),
    )
    for each in (points, late, quiz, gradebook, table):
        each.refuse_rest()
    return policy


def _choice(table: Table, key: str, default: str) -> str:
    value: str = table.take(key, str, default)
    table.demand(value in CHOICES[key], key, f"`{key}` is one of {', '.join(CHOICES[key])}")
    return value


def _number(table: Table, key: str, default: int, most: int = 10**6) -> int:
    value: int = table.take(key, int, default)
    table.demand(0 <= value <= most, key, f"`{key}` goes from 0 to {most}")
    return value


def _deadline(table: Table, key: str) -> datetime | None:
    value: datetime | None = table.take(key, datetime, None)
    zoned = value is None or value.tzinfo is not None
    table.demand(zoned, key, f"`{key}` has no time zone; write it as 2026-10-30T23:59:00+01:00")
    return value


def _chapter_deadlines(late: Table) -> dict[int, datetime]:
    table = late.inner(late.take("chapters", dict, {}), "chapters")
    found = {}
    for key in list(table.rest):
        table.demand(key[:2] == "ch" and key[2:].isdecimal(), key, f"`{key}` is no chapter; write it as ch1")
        if (deadline := _deadline(table, key)) is not None:
            found[int(key[2:])] = deadline
    return found

"""Write what the instructor reads of a class: HTML in one file, the same in Markdown, and its plots as SVG."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import jinja2

from grader.classroom.feedback import file_names, in_a_line
from grader.classroom.gradebook import ClassMarks, Mark, Standing, StudentMarks
from grader.records import Exercise, Outcome
from grader.report.as_json import replace_file
from grader.safe_text import clean

TEMPLATES: Final = Path(__file__).with_name("report")
PLOTS: Final = "plots"
MOST_BELIEFS, BINS = 40, 10
COLOURS: Final = {  # told apart without red and green, too
    Standing.REPAIRED: "#1b9e77",
    Standing.KNOWN: "#e6ab02",
    Standing.WRONG: "#d95f02",
    Standing.UNTOUCHED: "#c3c9d2",
    Standing.MISSING: "#7b8494",
    Standing.BLOCKED: "#7570b3",
    Standing.ERROR: "#e7298a",
}


@dataclass(frozen=True)
class Part:
    """Draw one part of a bar: so many of one standing, beginning after so many."""

    standing: Standing
    count: int
    start: int

    @property
    def colour(self) -> str:
        """Return the standing's colour."""
        return COLOURS[self.standing]


@dataclass(frozen=True)
class Bar:
    """Draw how one exercise stands in the class."""

    exercise: Exercise
    parts: tuple[Part, ...]
    repaired: int


@dataclass(frozen=True)
class Belief:
    """Count how often one thing was believed."""

    exercise: Exercise
    text: str
    promise: str  # of the check that fails first
    count: int


@dataclass(frozen=True)
class CheckRow:
    """Count how often one check failed, and how often it was the first."""

    promise: str
    name: str
    held_out: bool
    first: int
    failed: int


@dataclass(frozen=True)
class Row:
    """Show one student."""

    marks: StudentMarks
    feedback: str
    late: int

    @property
    def cells(self) -> list[tuple[Mark, str]]:
        """Return each mark with its colour."""
        return [(mark, COLOURS[mark.standing]) for mark in self.marks.marks]


def write_class_report(marks: ClassMarks, folder: Path, remarks: Sequence[str] = ()) -> None:
    """Write report.html, report.md and plots/*.svg."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"clean": clean, "md": in_a_line}
    context = context_of(marks, remarks)
    (folder / PLOTS).mkdir(exist_ok=True)
    for name in ("exercises", "points"):
        plot = environment.get_template(f"{name}.svg").render(context, standalone=True)
        replace_file(folder / PLOTS / f"{name}.svg", plot + "\n")
    replace_file(folder / "report.html", environment.get_template("report.html").render(context) + "\n")
    plain = environment.overlay(autoescape=False)
    replace_file(folder / "report.md", plain.get_template("report.md").render(context) + "\n")


def context_of(marks: ClassMarks, remarks: Sequence[str]) -> dict[str, object]:
    """Return all that the templates show."""
    points = [student.points for student in marks.students]
    names = file_names([student.student for student in marks.students])
    rows = [
        Row(student, name, sum(mark.late_days > 0 for mark in student.marks))
        for student, name in zip(marks.students, names, strict=True)
    ]
    everything = [mark for student in marks.students for mark in student.marks]
    standings = Counter(mark.standing for mark in everything)
    return {
        "marks": marks,
        "remarks": tuple(remarks),
        "bars": [_bar(place, exercise, marks) for place, exercise in enumerate(marks.exercises)],
        "bins": _bins(points, marks.max_points),
        "beliefs": _beliefs(marks),
        "checks": {exercise.slug: _check_rows(place, marks) for place, exercise in enumerate(marks.exercises)},
        "rows": rows,
        "legend": [(standing, COLOURS[standing]) for standing in Standing if standings[standing]],
        "median": f"{statistics.median(points):g}",
        "repaired_percent": round(100 * standings[Standing.REPAIRED] / max(1, len(everything))),
        "recognised": standings[Standing.KNOWN],
        "wrong": standings[Standing.KNOWN] + standings[Standing.WRONG],
        "late": sum(row.late > 0 for row in rows),
        "errors": standings[Standing.ERROR],
    }


def _bar(place: int, exercise: Exercise, marks: ClassMarks) -> Bar:
    counts = Counter(student.marks[place].standing for student in marks.students)
    parts, start = [], 0
    for standing in Standing:
        if counts[standing]:
            parts.append(Part(standing, counts[standing], start))
            start += counts[standing]
    return Bar(exercise, tuple(parts), counts[Standing.REPAIRED])


def _bins(points: Sequence[int], most: int) -> list[tuple[int, int, int]]:
    """Return (from, to, students) for ranges of points of about equal width."""
    count = min(BINS, most + 1)
    edges = [round((most + 1) * place / count) for place in range(count + 1)]
    return [(low, high - 1, sum(low <= each < high for each in points)) for low, high in pairwise(edges)]


def _beliefs(marks: ClassMarks) -> list[Belief]:
    """Return what was believed, the most frequent first."""
    counts: Counter[tuple[int, str, str]] = Counter()
    for student in marks.students:
        for place, mark in enumerate(student.marks):
            if mark.belief and mark.standing is Standing.KNOWN and mark.first_failure:
                counts[place, mark.belief, mark.first_failure.promise.sentence] += 1
    return [
        Belief(marks.exercises[place], text, promise, count)
        for (place, text, promise), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_BELIEFS]
    ]


def _check_rows(place: int, marks: ClassMarks) -> list[CheckRow]:
    """Count over those who changed the starter: what an untouched one fails says nothing about the class."""
    exercise = marks.exercises[place]
    first: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for student in marks.students:
        mark = student.marks[place]
        if mark.standing is Standing.UNTOUCHED:
            continue
        first.update([mark.first_failure.promise.name] if mark.first_failure else [])
        failed.update(check.promise.name for check in mark.verdict.checks if check.outcome is Outcome.FAILED)
    released = _released(place, marks)
    return [
        CheckRow(
            promise.sentence, promise.name, promise.name not in released, first[promise.name], failed[promise.name]
        )
        for promise in marks.promises[exercise.slug]
    ]


def _released(place: int, marks: ClassMarks) -> frozenset[str]:
    from grader import catalog

    return frozenset(promise.name for promise in catalog.promises(marks.exercises[place]))

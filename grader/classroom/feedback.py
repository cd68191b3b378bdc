"""Write what a student reads: points, and of each exercise that is not repaired the first failing check and a hint."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from grader.classroom.gradebook import ClassMarks, Mark, Standing, StudentMarks
from grader.records import Outcome
from grader.report.as_json import replace_file
from grader.report.text import render
from grader.safe_text import clean, for_markdown

FOLDER = "feedback"
SIGNS = {
    Standing.REPAIRED: "✓ repaired",
    Standing.KNOWN: "✗ not yet",
    Standing.WRONG: "✗ not yet",
    Standing.UNTOUCHED: "· not begun",
    Standing.MISSING: "✗ no file to grade",
    Standing.BLOCKED: "· waits for another",
    Standing.ERROR: "! our fault, to be graded again",
}
BLOCK_LIMIT = 6000


def write_feedback(marks: ClassMarks, folder: Path) -> None:
    """Write one file for each student."""
    (folder / FOLDER).mkdir(exist_ok=True)
    for student, name in zip(marks.students, file_names([each.student for each in marks.students]), strict=True):
        replace_file(folder / FOLDER / name, feedback(student, marks))


def file_names(students: list[str]) -> list[str]:
    """Return a file name for each student, harmless on every system and unlike the others'."""
    found: dict[str, str] = {}
    for student in students:
        stem = name = re.sub(r"[^\w.-]+", "_", clean(student, 100)).strip("._") or "student"
        number = 2
        while name.lower() in found:
            name, number = f"{stem}_{number}", number + 1
        found[name.lower()] = f"{name}.md"
    return list(found.values())


def feedback(student: StudentMarks, marks: ClassMarks) -> str:
    """Return a student's feedback as Markdown."""
    return "\n".join([*_head(student, marks), *_table(student), *_blocks(student), ""])


def in_a_line(text: str, limit: int = 200) -> str:
    """Return text that Markdown shows as it is, in a table too."""
    line = html.escape(" ".join(clean(text, limit).split()), quote=False)
    return re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", line)


def _head(student: StudentMarks, marks: ClassMarks) -> Iterator[str]:
    commit = f" of commit `{student.commit[:10]}`" if student.commit else ""
    yield f"# Feedback for {in_a_line(student.student)}"
    yield ""
    repaired = f"{student.repaired} of {len(student.marks)} exercises repaired"
    yield f"**{student.points} of {marks.max_points} points**, {repaired}."
    yield f"Graded{commit} with the instructor's own checks (seed {marks.seed}, isolation {marks.level.name})."
    yield ""


def _table(student: StudentMarks) -> Iterator[str]:
    yield "| exercise | | checks passed | points |"
    yield "|---|---|--:|--:|"
    for mark in student.marks:
        late = f", {_days(mark.late_days)} late" if mark.late_days else ""
        checks = f"{mark.passed} of {len(mark.verdict.checks)}" if mark.verdict.checks else ""
        points = f"{mark.points} of {mark.exercise.points}"
        yield f"| {mark.exercise.slug} | {SIGNS[mark.standing]}{late} | {checks} | {points} |"
    for quiz in student.quizzes:
        words = f"{quiz.answered.answered} of {quiz.answered.asked} answered, {quiz.answered.right} right"
        yield f"| knowledge check {quiz.chapter} | {words} | | {quiz.points} of {quiz.max_points} |"


def _blocks(student: StudentMarks) -> Iterator[str]:
    todo = [mark for mark in student.marks if mark.standing not in {Standing.REPAIRED, Standing.UNTOUCHED}]
    held_out = [mark for mark in student.marks if mark.standing is Standing.REPAIRED and _failing_held_out(mark)]
    if todo:
        yield "\n## What is still wrong"
    for mark in todo:
        yield f"\n### {mark.exercise.slug}\n"
        yield for_markdown(render(mark.verdict.result), BLOCK_LIMIT)
    if held_out:
        yield "\n## Checks that are not handed out"
        yield "\nThese exercises pass every check that you have, and not these promises:\n"
    for mark in held_out:
        for sentence in _failing_held_out(mark):
            yield f"- {mark.exercise.slug}: {sentence}"


def _failing_held_out(mark: Mark) -> list[str]:
    return [check.promise.sentence for check in mark.verdict.held_out if check.outcome is Outcome.FAILED]


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number} days"

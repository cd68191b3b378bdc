"""Write marks as CSV and JSON: for spreadsheets, for the gradebooks of Canvas and Moodle, for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from grader.classroom.gradebook import ClassMarks, Mark, StudentMarks
from grader.classroom.verdict import Json, to_json
from grader.errors import UsageError
from grader.report.as_json import replace_file
from grader.safe_text import clean, did_you_mean, for_csv

SCHEMA: Final = "ranklings/grades/1"
HEAD: Final = (
    *("student", "exercise", "chapter", "outcome", "points", "max_points", "checks_passed", "checks", "first_failure"),
    *("standing", "late_days", "isolation", "seconds", "commit", "graded_at"),
)
ROSTER: Final = ("student", "name", "id", "sis_user_id", "login", "section", "email")
CANVAS: Final = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE: Final = ("Username", "ID number", "Email address")

Column = tuple[str, int, Callable[[StudentMarks], int]]  # its title, the most points, a student's points


@dataclass(frozen=True)
class Person:
    """Hold how a gradebook calls a student."""

    name: str
    id: str = ""
    sis_user_id: str = ""
    login: str = ""
    section: str = ""
    email: str = ""


@dataclass(frozen=True)
class Roster:
    """Know students by the names of their hand-ins."""

    people: Mapping[str, Person] = field(default_factory=dict)

    def person(self, student: str) -> Person:
        """Return how a gradebook calls a student; without a line of its own, by the hand-in's name."""
        return self.people.get(student) or Person(student, login=student)


def read_roster(file: Path | None) -> Roster:
    """Return the roster in a CSV file whose first line names columns, `student` among them.

    Raises:
        UsageError: it cannot be read or has a column that nobody knows.
    """
    if file is None:
        return Roster()
    try:
        rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} cannot be read as CSV in UTF-8: {error}.") from None
    columns = list(rows[0]) if rows else []
    for column in columns:
        if column not in ROSTER:
            known = ", ".join(ROSTER)
            raise UsageError(f"{file} has a column `{column}`.{did_you_mean(str(column), ROSTER)} It may have {known}.")
    if "student" not in columns:
        raise UsageError(f"{file} has no column `student`, the name of the hand-in. Its first line names the columns.")
    return Roster({row["student"]: _person(row) for row in rows})


def _person(row: Mapping[str, str | None]) -> Person:
    given = {key: value or "" for key, value in row.items() if key != "student"}
    return Person(**{"name": row["student"] or "", "login": row["student"] or "", **given})


def write_tables(marks: ClassMarks, roster: Roster, folder: Path) -> None:
    """Write grades.csv, grades.json, canvas.csv and moodle.csv."""
    replace_file(folder / "grades.csv", _csv([HEAD, *_rows(marks)]))
    replace_file(folder / "grades.json", json.dumps(to_grades_json(marks), ensure_ascii=False, indent=1) + "\n")
    columns = _columns(marks)
    most = [["    Points Possible", "", "", "", "", *(str(most) for _, most, _ in columns)]]
    titles = [title for title, _, _ in columns]
    replace_file(folder / "canvas.csv", _csv([[*CANVAS, *titles], *most, *_canvas_rows(marks, roster, columns)]))
    replace_file(folder / "moodle.csv", _csv([[*MOODLE, *titles], *_moodle_rows(marks, roster, columns)]))


def to_grades_json(marks: ClassMarks) -> Json:
    """Return everything that is known of a class as what JSON can hold."""
    return {
        "schema": SCHEMA,
        "seed": marks.seed,
        "isolation": marks.level.name,
        "max_points": marks.max_points,
        "students": [_student(student) for student in marks.students],
    }


def _student(student: StudentMarks) -> Json:
    return {
        "student": clean(student.student, 200),
        "commit": student.commit,
        "points": student.points,
        "exercises": [_exercise(mark) for mark in student.marks],
        "quizzes": [
            {
                "chapter": quiz.chapter,
                "asked": quiz.answered.asked,
                "answered": quiz.answered.answered,
                "right": quiz.answered.right,
                "points": quiz.points,
                "max_points": quiz.max_points,
            }
            for quiz in student.quizzes
        ],
    }


def _exercise(mark: Mark) -> Json:
    verdict = to_json(mark.verdict)
    return {
        "slug": mark.exercise.slug,
        "chapter": mark.exercise.chapter,
        "outcome": mark.outcome.value,
        "standing": mark.standing.value,
        "points": mark.points,
        "max_points": mark.exercise.points,
        "first_failure": mark.first_failure.promise.name if mark.first_failure else None,
        "message": verdict["message"],
        "belief": mark.belief,
        "late_days": mark.late_days,
        "isolation": verdict["level"],
        "seconds": verdict["seconds"],
        "graded_at": mark.graded_at,
        "checks": [{k: v for k, v in check.items() if k != "output"} for check in verdict["checks"]],
        "held_out": [{k: v for k, v in check.items() if k != "output"} for check in verdict["held_out"]],
    }


def _rows(marks: ClassMarks) -> Iterable[list[str]]:
    for student in marks.students:
        for mark in student.marks:
            first = mark.first_failure.promise.name if mark.first_failure else ""
            yield [
                student.student,
                mark.exercise.slug,
                str(mark.exercise.chapter),
                mark.outcome.value,
                str(mark.points),
                str(mark.exercise.points),
                str(mark.passed),
                str(len(mark.verdict.checks)),
                first,
                mark.standing.value,
                str(mark.late_days),
                mark.verdict.level.name if mark.verdict.checks else "",
                f"{mark.verdict.result.seconds:.1f}",
                student.commit,
                mark.graded_at,
            ]


def _columns(marks: ClassMarks) -> list[Column]:
    """Return the columns of a gradebook as the policy wants them; they add up to the total."""
    total: Column = ("Ranklings", marks.max_points, lambda student: student.points)
    chapters = sorted({exercise.chapter for exercise in marks.exercises})
    if marks.policy.columns == "chapters":
        return [_chapter(marks, chapter) for chapter in chapters]
    if marks.policy.columns == "exercises":
        each = [_one_exercise(place, exercise.slug, exercise.points) for place, exercise in enumerate(marks.exercises)]
        quizzes = marks.students[0].quizzes if marks.students else ()
        return [*each, *(_one_quiz(place, quiz.chapter, quiz.max_points) for place, quiz in enumerate(quizzes))]
    return [total]


def _chapter(marks: ClassMarks, chapter: int) -> Column:
    def points(student: StudentMarks) -> int:
        exercises = sum(mark.points for mark in student.marks if mark.exercise.chapter == chapter)
        return exercises + sum(quiz.points for quiz in student.quizzes if quiz.chapter == chapter)

    most = sum(exercise.points for exercise in marks.exercises if exercise.chapter == chapter)
    quizzes = marks.students[0].quizzes if marks.students else ()
    return f"Ranklings chapter {chapter}", most + sum(q.max_points for q in quizzes if q.chapter == chapter), points


def _one_exercise(place: int, slug: str, most: int) -> Column:
    return f"Ranklings {slug}", most, lambda student: student.marks[place].points


def _one_quiz(place: int, chapter: int, most: int) -> Column:
    return f"Ranklings quiz {chapter}", most, lambda student: student.quizzes[place].points


def _canvas_rows(marks: ClassMarks, roster: Roster, columns: Sequence[Column]) -> Iterable[list[str]]:
    for student in marks.students:
        who = roster.person(student.student)
        points = [str(of(student)) for _, _, of in columns]
        yield [who.name, who.id, who.sis_user_id, who.login, who.section, *points]


def _moodle_rows(marks: ClassMarks, roster: Roster, columns: Sequence[Column]) -> Iterable[list[str]]:
    for student in marks.students:
        who = roster.person(student.student)
        yield [who.login, who.id, who.email, *(str(of(student)) for _, _, of in columns)]


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([for_csv(cell, 500) for cell in row] for row in rows)
    return text.getvalue()

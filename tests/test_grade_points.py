"""How results become points, and what is written about them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fake_class import write_course
from grader import catalog
from grader.classroom import feedback, policy, tables
from grader.classroom.class_report import write_class_report
from grader.classroom.collect import Answered, Course, Entry, Known
from grader.classroom.feedback import write_feedback
from grader.classroom.gradebook import ClassMarks, Standing, class_marks
from grader.classroom.policy import Policy
from grader.classroom.store import Store, key_of
from grader.classroom.verdict import Verdict, digest, to_json
from grader.errors import UsageError
from grader.records import CheckResult, Exercise, ExerciseResult, Level, Outcome, Promise, Submission

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = datetime(2026, 10, 30, 22, 59, tzinfo=UTC)
EVIL = "<script>alert(1)</script> ![x](http://127.0.0.1/) =1+1 `"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """Write a course of three exercises of three checks each, the first with one more that is held out."""
    root = write_course(tmp_path / "course")
    return Course.of(root, catalog.load_course(root), 7)


def result(exercise: Exercise, marks: str, message: str = "f() is 1, expected 2.", held_out: str = "") -> Verdict:
    """Return a verdict whose checks ended as the signs say: + passed, - failed, anything else not run."""
    outcomes = {"+": Outcome.PASSED, "-": Outcome.FAILED}

    def checks(promises: Sequence[Promise], signs: str) -> tuple[CheckResult, ...]:
        return tuple(
            CheckResult(promise, outcomes.get(sign, Outcome.NOT_RUN), message if sign == "-" else "")
            for promise, sign in zip(promises, signs, strict=True)
        )

    outcome = Outcome.PASSED if set(marks) == {"+"} else Outcome.FAILED
    released = checks(catalog.promises(exercise), marks)
    hidden = checks(catalog.promises(exercise, exercise.held_out_path), held_out) if held_out else ()
    return Verdict(ExerciseResult(Submission(exercise, exercise.starter_path), outcome, released), hidden, Level.B1)


def marked(
    course: Course,
    verdicts: Sequence[Verdict],
    rules: Policy,
    starter: str = "+--",
    student: str = "ada",
    **entry: object,
) -> ClassMarks:
    """Return the marks of one student with these verdicts."""
    folder = course.root.parent / "out"
    with closing(Store(folder, Level.B1)) as store:
        keys, known = {}, []
        for exercise, verdict in zip(course.exercises, verdicts, strict=True):
            keys[exercise.slug] = key_of(exercise.slug, digest(exercise), 7, b"theirs")
            store.keep(keys[exercise.slug], exercise.slug, to_json(verdict))
            known.append(Known(exercise.slug, key_of(exercise.slug, digest(exercise), 7, b"starter")))
            store.keep(known[-1].key, exercise.slug, to_json(result(exercise, starter)))
        return class_marks([Entry(student, keys, **entry)], known, course, store, rules)  # type: ignore[arg-type]


def points(course: Course, marks: str, rules: Policy, held_out: str = "", **more: object) -> int:
    """Return what the first exercise earns; it is worth two points."""
    first = course.exercises[0]
    course = replace(course, exercises=(replace(first, points=6),))
    verdict = result(course.exercises[0], marks, held_out=held_out)
    return marked(course, [verdict], rules, **more).students[0].points  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partial", "marks", "earned"),
    [
        ("beyond_starter", "+++", 6),
        ("beyond_starter", "++-", 3),
        ("beyond_starter", "+--", 0),
        ("beyond_starter", "-+-", 0),  # one gained, one lost
        ("beyond_starter", "-++", 3),
        ("checks", "+--", 2),
        ("checks", "++-", 4),
        ("none", "++-", 0),
        ("none", "+++", 6),
    ],
)
def test_partial_credit_is_what_the_policy_says(course: Course, partial: str, marks: str, earned: int) -> None:
    """The starter passes the first check of three; six points are to be had."""
    assert points(course, marks, Policy(partial=partial)) == earned


@pytest.mark.parametrize(("held_out", "earned"), [("count", 4), ("report", 6), ("off", 6)])
def test_held_out_checks_count_if_the_policy_says_so(course: Course, held_out: str, earned: int) -> None:
    """One of the three that can be earned fails; the verdict on the released ones stays."""
    assert points(course, "+++", Policy(held_out=held_out), "-") == earned


def test_checks_that_believe_a_rank_may_be_left_out(course: Course) -> None:
    """Then an exercise that fails only such a check earns all of its points."""
    checks = course.exercises[0].checks_path
    checks.write_text(checks.read_text().replace('judged_by="value"', 'judged_by="observation"'))
    assert points(course, "+-+", Policy(observation="count")) == 3
    assert points(course, "+-+", Policy(observation="leave_out")) == 6


@pytest.mark.parametrize(
    ("late", "days"), [(-1, 0), (14, 0), (16, 1), (60 * 24, 1), (60 * 24 + 1, 2), (60 * 24 * 99, 99)]
)
def test_each_day_that_has_begun_after_the_grace_is_late(late: int, days: int) -> None:
    committed_s = int((DEADLINE + timedelta(minutes=late)).timestamp())
    assert Policy(deadline=DEADLINE).late_days(1, committed_s) == days


def test_late_points_are_taken_off_up_to_a_most(course: Course) -> None:
    rules = Policy(deadline=DEADLINE, percent_per_day=10, percent_at_most=50)
    for days, earned in ((0, 6), (1, 5), (3, 4), (30, 3)):
        dates = {"add_up": int((DEADLINE + timedelta(days=days)).timestamp())}
        assert points(course, "+++", rules, dates=dates) == earned


def test_a_chapter_may_have_its_own_deadline() -> None:
    rules = Policy(deadline=DEADLINE, chapter_deadlines={2: DEADLINE + timedelta(days=7)})
    committed_s = int((DEADLINE + timedelta(days=1)).timestamp())
    assert (rules.late_days(1, committed_s), rules.late_days(2, committed_s)) == (1, 0)


@pytest.mark.parametrize(("count", "earned"), [("off", 0), ("answered", 5), ("right", 3)])
def test_knowledge_checks_count_as_the_policy_says(course: Course, count: str, earned: int) -> None:
    assert points(course, "---", Policy(quiz=count), quizzes={1: Answered(10, 10, 7)}) == earned


def test_an_exercise_waits_for_those_that_it_uses(course: Course) -> None:
    """As `check` has it: the same verdict everywhere."""
    first, second, third = course.exercises
    course = replace(course, exercises=(first, second, replace(third, uses=("add_up",))))
    verdicts = [result(first, "+--"), result(second, "+++"), result(course.exercises[2], "+++")]
    last = marked(course, verdicts, Policy()).students[0].marks[2]
    assert (last.outcome, last.standing, last.points) == (Outcome.NOT_RUN, Standing.BLOCKED, 0)
    assert "Repair add_up first" in last.verdict.result.message


# --- the configuration ------------------------------------------------------------------------------------------------


def test_the_file_that_comes_with_the_course_shows_the_defaults() -> None:
    assert policy.read(None, ROOT) == Policy()


def test_what_the_file_says_in_comments_may_be_said_in_earnest(tmp_path: Path) -> None:
    """Each line that a comment hides is a line that can be read."""
    text = (ROOT / policy.NAME).read_text(encoding="utf-8")
    for word in ("deadline", "[late.chapters]", "ch1"):
        assert f"# {word}" in text
        text = text.replace(f"# {word}", word)
    text = text.replace("# ch1", "ch1")
    head, late = text.split("[late.chapters]")
    chapter, rest = late.split("\n\n", 1)
    (tmp_path / "p.toml").write_text(f"{head}\n{rest}\n[late.chapters]{chapter}\n", encoding="utf-8")
    read = policy.read(tmp_path / "p.toml", ROOT)
    assert read.deadline is not None
    assert list(read.chapter_deadlines) == [1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[points]\npartial = "some"', "p.toml:2: `partial` is one of beyond_starter, checks, none."),
        ("[late]\ndeadline = 2026-10-30T23:59:00", "p.toml:2: `deadline` has no time zone"),
        ('[late]\ndeadline = "tomorrow"', "p.toml:2: `deadline` is no date with a time and a zone."),
        ("[late]\npercent_at_most = 200", "p.toml:2: `percent_at_most` goes from 0 to 100."),
        ("[late.chapters]\none = 2026-10-30T23:59:00Z", "p.toml:2: `one` is no chapter; write it as ch1."),
        ("[pionts]", "p.toml:1: `pionts` is not known here. Did you mean `points`?"),
        ("[points", "p.toml:1: is not TOML"),
    ],
)
def test_a_mistake_in_the_configuration_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        policy.read(tmp_path / "p.toml", ROOT)
    assert words in str(raised.value)


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.fixture
def evil(course: Course) -> tuple[ClassMarks, Path]:
    """Return the marks of a student whose name and words try to be more than text."""
    verdicts = [result(exercise, "---", EVIL + "\nthat is " + EVIL) for exercise in course.exercises]
    return marked(course, verdicts, Policy(), student=EVIL), course.root.parent / "out"


def test_no_words_of_a_student_are_more_than_text_in_the_reports(evil: tuple[ClassMarks, Path]) -> None:
    """Neither elements nor images nor formulas nor an end of the fence."""
    marks, out = evil
    write_class_report(marks, out)
    write_feedback(marks, out)
    tables.write_tables(marks, tables.Roster(), out)
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in html.lower()
    assert "&lt;script&gt;" in html
    markdown = (out / "report.md").read_text(encoding="utf-8")
    assert "<script" not in markdown
    assert "![x]" not in markdown
    [read] = (out / "feedback").iterdir()
    outside = "".join(read.read_text(encoding="utf-8").split("```")[0::2])
    assert "<script" not in outside
    for table in ("grades", "canvas", "moodle"):
        cells = [cell for row in csv.reader((out / f"{table}.csv").read_text().splitlines()) for cell in row]
        assert not [cell for cell in cells if cell[:1] in set("=+-@")]


def test_the_report_is_one_file_that_loads_nothing(evil: tuple[ClassMarks, Path]) -> None:
    marks, out = evil
    write_class_report(marks, out)
    html = (out / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in html
    assert not [word for word in ("<link", "<img", "<iframe", "@import", "url(") if word in html]
    for plot in ("exercises", "points"):
        ET.parse(out / "plots" / f"{plot}.svg")


def test_every_table_shows_the_same_total(course: Course) -> None:
    verdicts = [
        result(exercise, marks) for exercise, marks in zip(course.exercises, ("+++", "++-", "+--"), strict=True)
    ]
    for columns, count in (("total", 1), ("chapters", 1), ("exercises", 3)):
        marks, out = marked(course, verdicts, Policy(columns=columns)), course.root.parent / "out"
        tables.write_tables(marks, tables.Roster(), out)
        assert json.loads((out / "grades.json").read_text())["students"][0]["points"] == 3
        head, most, ada = csv.reader((out / "canvas.csv").read_text().splitlines())
        assert head[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
        assert (len(head) - 5, sum(map(int, most[5:])), sum(map(int, ada[5:]))) == (count, 6, 3)
        _, moodle = csv.reader((out / "moodle.csv").read_text().splitlines())
        assert (moodle[0], sum(map(int, moodle[3:]))) == ("ada", 3)
        rows = list(csv.DictReader((out / "grades.csv").read_text().splitlines()))
        assert sum(int(row["points"]) for row in rows) == 3


def test_a_roster_says_how_a_gradebook_calls_a_student(course: Course, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("student,name,id,login,email\nada,Ada Lovelace,42,al,ada@example.org\n")
    marks = marked(course, [result(exercise, "+++") for exercise in course.exercises], Policy())
    tables.write_tables(marks, tables.read_roster(tmp_path / "r.csv"), tmp_path / "out")
    assert (tmp_path / "out" / "canvas.csv").read_text().splitlines()[2] == "Ada Lovelace,42,,al,,6"
    assert (tmp_path / "out" / "moodle.csv").read_text().splitlines()[1] == "al,42,ada@example.org,6"
    (tmp_path / "r.csv").write_text("student,emial\nada,x\n")
    with pytest.raises(UsageError, match=r"column `emial`\. Did you mean `email`\?"):
        tables.read_roster(tmp_path / "r.csv")


def test_feedback_files_never_share_a_name() -> None:
    """Whatever a folder is called, and on systems that do not tell upper from lower case."""
    names = feedback.file_names(["Ada", "ada", "a/../da", "..", "日本", "a b"])
    assert names == ["Ada.md", "ada_2.md", "a_.._da.md", "student.md", "日本.md", "a_b.md"]

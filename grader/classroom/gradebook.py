"""Make marks of verdicts: what each exercise earns under the policy, and what else there is to say about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

from grader import catalog
from grader.classroom import misconceptions, verdict
from grader.classroom.collect import Answered, Course, Entry, Known
from grader.classroom.policy import Policy
from grader.classroom.store import Store
from grader.classroom.verdict import Verdict
from grader.records import CheckResult, Exercise, Level, Outcome, Promise

NOT_GRADED = "It was not graded yet. Run `grade` again: it goes on."


class Standing(Enum):
    """Say in one word how an exercise stands, for counting and colouring."""

    REPAIRED = "repaired"
    KNOWN = "wrong in a known way"
    WRONG = "wrong in another way"
    UNTOUCHED = "untouched starter"
    MISSING = "nothing to grade"
    BLOCKED = "waits for another exercise"
    ERROR = "could not be graded"


@dataclass(frozen=True)
class Mark:
    """Hold what one student earned with one exercise."""

    exercise: Exercise
    verdict: Verdict
    outcome: Outcome
    standing: Standing
    points: int = 0
    late_days: int = 0
    belief: str = ""
    graded_at: str = ""

    @property
    def first_failure(self) -> CheckResult | None:
        """Return the released check at which the student has to look first."""
        return self.verdict.result.first_failure

    @property
    def passed(self) -> int:
        """Count the checks that passed, held-out ones included."""
        return sum(check.outcome is Outcome.PASSED for check in self.verdict.checks)


@dataclass(frozen=True)
class QuizMark:
    """Hold what one student earned with one chapter's knowledge check."""

    chapter: int
    answered: Answered
    points: int
    max_points: int


@dataclass(frozen=True)
class StudentMarks:
    """Hold everything that one student earned."""

    student: str
    commit: str
    marks: tuple[Mark, ...]
    quizzes: tuple[QuizMark, ...] = ()

    @cached_property
    def points(self) -> int:
        """Add up the points: the one total that every table shows."""
        return sum(mark.points for mark in self.marks) + sum(quiz.points for quiz in self.quizzes)

    @cached_property
    def repaired(self) -> int:
        """Count the repaired exercises."""
        return sum(mark.standing is Standing.REPAIRED for mark in self.marks)


@dataclass(frozen=True)
class ClassMarks:
    """Hold the marks of a class and how they came about."""

    exercises: tuple[Exercise, ...]
    students: tuple[StudentMarks, ...]
    policy: Policy
    seed: int
    level: Level
    promises: Mapping[str, tuple[Promise, ...]] = field(default_factory=dict)  # by slug, held-out ones last

    @property
    def max_points(self) -> int:
        """Return the most that anybody can earn."""
        quizzes = self.students[0].quizzes if self.students else ()
        return sum(exercise.points for exercise in self.exercises) + sum(quiz.max_points for quiz in quizzes)


class _Reader:
    """Read verdicts of one exercise from the store, and recognise what is known."""

    def __init__(self, exercise: Exercise, store: Store, known: Sequence[Known]) -> None:
        self.exercise, self.store = exercise, store
        file = exercise.held_out_path
        self.released = {promise.name: promise for promise in catalog.promises(exercise)}
        self.held_out = {promise.name: promise for promise in catalog.promises(exercise, file)} if file.exists() else {}
        own = [each for each in known if each.slug == exercise.slug]
        self.starter = next((self.read(each.key)[0] for each in own if not each.belief), None)
        wrong = [(each.belief, self.read(each.key)[0]) for each in own if each.belief]
        self.beliefs = misconceptions.beliefs_by_signature(wrong)

    def read(self, key: str) -> tuple[Verdict, str]:
        found = self.store.verdict(key)
        if found is None:
            return verdict.failed(self.exercise, NOT_GRADED, Outcome.ERROR), ""
        return verdict.from_json(self.exercise, found[0], self.released, self.held_out), found[1]


def class_marks(
    entries: Sequence[Entry], known: Sequence[Known], course: Course, store: Store, policy: Policy
) -> ClassMarks:
    """Return the marks of everybody in `entries`."""
    readers = {exercise.slug: _Reader(exercise, store, known) for exercise in course.exercises}
    students = tuple(_student(entry, readers, policy) for entry in entries)
    levels = [mark.verdict.level for student in students for mark in student.marks if mark.verdict.checks]
    promises = {slug: (*reader.released.values(), *reader.held_out.values()) for slug, reader in readers.items()}
    level = min(levels, key=lambda each: each.value, default=store.required)
    return ClassMarks(course.exercises, students, policy, course.seed, level, promises)


def _student(entry: Entry, readers: Mapping[str, _Reader], policy: Policy) -> StudentMarks:
    marks: dict[str, Mark] = {}
    for slug, reader in readers.items():
        mark = _mark(entry, reader, policy)
        lacking = next((used for used in reader.exercise.uses if not _is_repaired(marks.get(used))), None)
        marks[slug] = mark if lacking is None else _blocked(mark, lacking)
    return StudentMarks(entry.student, entry.commit, tuple(marks.values()), _quizzes(entry, policy))


def _mark(entry: Entry, reader: _Reader, policy: Policy) -> Mark:
    exercise = reader.exercise
    if refusal := entry.refusals.get(exercise.slug):
        return Mark(exercise, verdict.failed(exercise, refusal), Outcome.FAILED, Standing.MISSING)
    found, graded_at = reader.read(entry.keys[exercise.slug])
    outcome, late_days = found.result.outcome, 0
    if exercise.slug in entry.dates:
        late_days = policy.late_days(exercise.chapter, entry.dates[exercise.slug])
    points = policy.after_lateness(_points(found, reader.starter, policy), late_days)
    belief = misconceptions.recognise(found, reader.beliefs)
    if outcome is Outcome.ERROR:
        standing = Standing.ERROR
    elif outcome is Outcome.PASSED:
        standing = Standing.REPAIRED
    elif exercise.slug in entry.untouched:
        standing, belief, late_days = Standing.UNTOUCHED, "", 0
    else:
        standing = Standing.KNOWN if belief else Standing.WRONG
    return Mark(exercise, found, outcome, standing, points, late_days, belief, graded_at)


def _points(found: Verdict, starter: Verdict | None, policy: Policy) -> int:
    """Return whole points, rounded down, so that only an exercise that passes every counted check earns all."""
    most, checks = found.result.submission.exercise.points, _counted(found, policy)
    passed = {check.promise.name for check in checks if check.outcome is Outcome.PASSED}
    if found.result.outcome is Outcome.ERROR or not checks:
        return 0
    if len(passed) == len(checks):
        return most
    if policy.partial == "none":
        return 0
    given: set[str] = set()
    if policy.partial == "beyond_starter" and starter is not None:
        given = {check.promise.name for check in starter.checks if check.outcome is Outcome.PASSED}
    earnable = {check.promise.name for check in checks} - given
    lost = {check.promise.name for check in checks} & given - passed
    gained = len(passed & earnable) - len(lost)  # breaking what the starter could is no progress
    return max(0, most * gained // len(earnable)) if earnable else 0


def _counted(found: Verdict, policy: Policy) -> list[CheckResult]:
    checks = [*found.result.checks, *(found.held_out if policy.held_out == "count" else ())]
    left_out = {"observation"} if policy.observation == "leave_out" else set[str]()
    return [check for check in checks if check.promise.judged_by not in left_out]


def _blocked(mark: Mark, used: str) -> Mark:
    message = f"Repair {used} first, which this exercise uses."
    result = replace(mark.verdict.result, outcome=Outcome.NOT_RUN, checks=(), message=message)
    blocked = replace(mark.verdict, result=result, held_out=())
    return Mark(mark.exercise, blocked, Outcome.NOT_RUN, Standing.BLOCKED, graded_at=mark.graded_at)


def _is_repaired(mark: Mark | None) -> bool:
    return mark is None or mark.standing is Standing.REPAIRED  # what is not graded this time cannot be lacking


def _quizzes(entry: Entry, policy: Policy) -> tuple[QuizMark, ...]:
    if policy.quiz == "off":
        return ()
    return tuple(_quiz(chapter, answered, policy) for chapter, answered in sorted(entry.quizzes.items()))


def _quiz(chapter: int, answered: Answered, policy: Policy) -> QuizMark:
    count = answered.answered if policy.quiz == "answered" else answered.right
    points = policy.quiz_points * count // answered.asked if answered.asked else 0
    return QuizMark(chapter, answered, points, policy.quiz_points)

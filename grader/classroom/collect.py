"""Go through a class once: keep in the store what is to be graded, and in memory only whose it is."""

from __future__ import annotations

import ast
import codecs
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader import catalog, notes, quiz
from grader.classroom import handed_in
from grader.classroom.store import Store, Waiting, key_of
from grader.classroom.verdict import bundle, digest
from grader.errors import RefusedFile
from grader.records import Exercise
from grader.tables import parse


@dataclass(frozen=True)
class Answered:
    """Count the answers to one chapter's knowledge check, in the best try."""

    asked: int
    answered: int = 0
    right: int = 0


@dataclass(frozen=True)
class Entry:
    """Hold of one student everything but the programs: those are in the store, under their keys."""

    student: str
    keys: Mapping[str, str] = field(default_factory=dict)  # by slug
    refusals: Mapping[str, str] = field(default_factory=dict)  # by slug: why there is nothing to grade
    untouched: frozenset[str] = frozenset()  # slugs of which the starter was handed in
    commit: str = ""
    dates: Mapping[str, int] = field(default_factory=dict)  # by slug
    quizzes: Mapping[int, Answered] = field(default_factory=dict)  # by chapter


@dataclass(frozen=True)
class Known:
    """Name a program of the instructor's half that is graded once beside the class: the starter, a wrong repair."""

    slug: str
    key: str
    belief: str = ""  # what the author of a wrong repair believed; "" for the starter


@dataclass(frozen=True)
class Course:
    """Hold what decides the keys of a class's verdicts."""

    root: Path
    exercises: tuple[Exercise, ...]
    seed: int
    digests: Mapping[str, str]
    questions: Mapping[int, frozenset[str]]  # ids by chapter

    @classmethod
    def of(cls, root: Path, exercises: Sequence[Exercise], seed: int) -> Course:
        """Read what is needed of each exercise once."""
        folders = {exercise.chapter: exercise.reference_dir.parent for exercise in exercises}
        quizzes = {chapter: folder / "quiz.toml" for chapter, folder in folders.items()}
        return cls(
            root,
            tuple(exercises),
            seed,
            {exercise.slug: digest(exercise) for exercise in exercises},
            {
                chapter: frozenset(question.id for question in quiz.load(file, 0))
                for chapter, file in quizzes.items()
                if file.exists()
            },
        )

    def waiting(self, exercise: Exercise, source: bytes, used: Mapping[str, bytes] | None = None) -> Waiting:
        """Return a program as something to grade, with what it uses: the reference's unless a student's is given."""
        if used is None:
            used = {slug: path.read_bytes() for slug, path in catalog.used_paths(exercise).items()}
        slug, bundled = exercise.slug, bundle(exercise, source, used)
        return Waiting(key_of(slug, self.digests[slug], self.seed, bundled), slug, bundled)


def collect(path: Path, course: Course, store: Store, *, with_dates: bool) -> Entry:
    """Take in one hand-in."""
    hand_in = handed_in.take(path, course.exercises, course.root, with_dates=with_dates)
    programs = {slug: taken for slug, taken in hand_in.programs.items() if isinstance(taken, bytes)}
    works = {
        exercise.slug: course.waiting(exercise, programs[exercise.slug], programs)
        for exercise in course.exercises
        if programs.keys() >= {exercise.slug, *exercise.uses}
    }
    store.enqueue(works.values())
    starters = {exercise.slug: _plain(exercise.starter_path.read_bytes()) for exercise in course.exercises}
    return Entry(
        hand_in.student,
        {slug: work.key for slug, work in works.items()},
        {slug: str(taken) for slug, taken in hand_in.programs.items() if isinstance(taken, RefusedFile)}
        | {
            exercise.slug: _lacking(exercise, programs)
            for exercise in course.exercises
            if exercise.slug in programs.keys() - works.keys()
        },
        frozenset(slug for slug, source in programs.items() if _plain(source) == starters[slug]),
        hand_in.commit,
        hand_in.dates,
        {chapter: _answered(hand_in.answers.get(chapter, ()), ids) for chapter, ids in course.questions.items()},
    )


def _lacking(exercise: Exercise, programs: Mapping[str, bytes]) -> str:
    used = next(slug for slug in exercise.uses if slug not in programs)
    return f"{used}.py is not there to be used. Repair {used} first."


def collect_starters(course: Course, store: Store) -> list[Known]:
    """Have the starters graded, too: what they pass is nobody's merit."""
    works = [course.waiting(exercise, exercise.starter_path.read_bytes()) for exercise in course.exercises]
    store.enqueue(works)
    return [Known(work.slug, work.key) for work in works]


def collect_wrong_repairs(course: Course, store: Store) -> list[Known]:
    """Have the known wrong repairs graded, too, with the class's seed: what fails alike was thought alike."""
    found = [(work, belief) for exercise in course.exercises for work, belief in _wrong_repairs(course, exercise)]
    store.enqueue(work for work, _ in found)
    return [Known(work.slug, work.key, belief) for work, belief in found]


def _wrong_repairs(course: Course, exercise: Exercise) -> Iterator[tuple[Waiting, str]]:
    for file in sorted((exercise.reference_dir / "wrong").glob("*.py")):
        belief = (ast.get_docstring(parse(file)) or file.stem).partition("\n\n")[0]
        yield course.waiting(exercise, file.read_bytes()), " ".join(belief.split())


def _plain(source: bytes) -> bytes:
    """Return a program without what editors change by themselves."""
    lines = source.removeprefix(codecs.BOM_UTF8).splitlines()
    return b"\n".join(line.rstrip() for line in lines).strip()


def _answered(events: Sequence[notes.Event], ids: frozenset[str]) -> Answered:
    """Count the best try; a question that was answered twice in one try counts as it was answered last."""
    tries: dict[int, dict[str, bool]] = {}
    for event in events:
        if event["kind"] == "answer" and event["question"] in ids:
            tries.setdefault(event["seed"], {})[event["question"]] = event["right"]
    counts = [Answered(len(ids), len(answers), sum(answers.values())) for answers in tries.values()]
    return max(counts, key=lambda each: (each.right, each.answered), default=Answered(len(ids)))

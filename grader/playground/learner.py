"""Ask the learner's current file, which runs elsewhere; whatever it does instead of answering is a sentence."""

from __future__ import annotations

import atexit
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grader import catalog, files_in
from grader.errors import GraderError, RefusedFile, StudentFailure
from grader.launch import Launcher, open_launcher
from grader.records import Exercise
from grader.safe_text import clean
from grader.student import Student

FORM_ERRORS = (TypeError, KeyError, IndexError, AttributeError, ValueError, OverflowError, ZeroDivisionError)
SEED = 0  # as `check` does: the same for everyone
REMEMBERED = 64
OTHER_FORM = "The answer has another form than the contract says. The README has the contract."

Ask = Callable[[Student], Any]


@dataclass(frozen=True)
class Answer:
    """Hold what the learner's file answered, or the sentence that `check` would say."""

    value: Any = None
    sentence: str = ""


_turn = threading.Lock()  # one page at a time speaks to the launcher
_remembered: dict[object, Answer] = {}


def ask(exercise: Exercise, question: Ask, key: object) -> Answer:
    """Read the file as it is now and put a question to it, or return what it answered before if nothing has changed."""
    try:
        source = files_in.take(exercise.student_dir, exercise.starter_path.name)
    except RefusedFile as refusal:
        return Answer(sentence=str(refusal))
    with _turn:
        known = (exercise.slug, source, key)
        if known not in _remembered:
            while len(_remembered) >= REMEMBERED:
                del _remembered[next(iter(_remembered))]
            _remembered[known] = _run(exercise, source, question)
        return _remembered[known]


def _run(exercise: Exercise, source: bytes, question: Ask) -> Answer:
    try:
        student = _student(exercise, source)
    except GraderError as error:
        return Answer(sentence=str(error))
    try:
        return Answer(question(student))
    except StudentFailure as failure:
        return Answer(sentence=clean(failure.message))
    except GraderError as error:
        return Answer(sentence=str(error))
    except FORM_ERRORS:
        return Answer(sentence=OTHER_FORM)
    finally:
        student.close()


def _student(exercise: Exercise, source: bytes) -> Student:
    """Return what runs the file beside the exercise's harness, as `check` does."""
    preload = {*exercise.preload, *catalog.imports_of(source.decode("utf-8", "replace"))}
    harness = exercise.harness_path.read_bytes() if exercise.harness_path.exists() else None
    prepared = replace(exercise, preload=tuple(sorted(preload)))
    return Student(prepared, source, harness, _launcher(), catalog.exercise_seed(exercise.slug, SEED))


@functools.cache
def _launcher() -> Launcher:
    launcher = open_launcher(preload=("numpy", "torch", "torch.distributed"))
    atexit.register(launcher.close)
    return launcher

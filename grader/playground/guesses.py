"""Keep what a learner guessed before a picture was shown, in the exercise's notes, and say how far off it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader import notes
from grader.playground.drawing import number
from grader.playground.panels import Panel
from grader.records import Exercise

KIND = "prediction"
RIGHT = 0.02  # relative; who is this near has not guessed


@dataclass(frozen=True)
class Guess:
    """Hold a guess and its reason."""

    guess: float
    reason: str


def last(exercise: Exercise, panel: Panel) -> Guess | None:
    """Return the latest guess at this panel's question, None if it was never asked."""
    events = notes.read(exercise.student_dir)[0]
    mine = [event for event in events if event["kind"] == KIND and event.get("panel") == panel.name]
    return _guess(mine[-1]) if mine else None


def keep(exercise: Exercise, panel: Panel, submitted: Mapping[str, Any], result: float) -> tuple[Guess, str | None]:
    """Write guess, result and reason into the notes; return the guess, and a sentence if it could not be kept."""
    guess = _guess(submitted)
    complaint = notes.append(
        exercise.student_dir,
        KIND,
        panel=panel.name,
        quantity=panel.question.quantity,
        unit=panel.question.unit,
        guess=guess.guess,
        result=result,
        reason=guess.reason,
    )
    return guess, complaint


def how_far(guess: float, result: float) -> str:
    """Say in words how far a guess was from the result."""
    if math.isclose(guess, result, rel_tol=RIGHT, abs_tol=1e-9):
        return "right"
    if guess * result <= 0:
        return f"off by {number(abs(guess - result))}"
    factor = guess / result
    if 0.5 <= factor <= 2:
        return f"{number(abs(factor - 1) * 100)} % too {'high' if factor > 1 else 'low'}"
    return f"{number(factor if factor > 1 else 1 / factor)} times too {'high' if factor > 1 else 'low'}"


def _guess(event: Mapping[str, Any]) -> Guess:
    try:
        return Guess(float(event["guess"]), str(event.get("reason") or "")[:300])
    except (KeyError, TypeError, ValueError):
        return Guess(math.nan, "")

"""Keep what a learner guessed before a picture was shown, in the exercise's notes, and say how far off it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grader import notes
from grader.playground.drawing import number
from grader.playground.panels import Panel
from grader.predictions import PANEL
from grader.records import Exercise

MOST_CHARACTERS = 300
RIGHT = 0.02  # relative; who is this near has not guessed


@dataclass(frozen=True)
class Guess:
    """Hold a guess and its reason."""

    guess: float
    reason: str


def read(words: str) -> float | None:
    """Return the number that somebody typed, None if it is none: 328, 1.5e6 1/8, 25 %."""
    plain = words.strip().rstrip("%").replace("\u202f", "").replace(",", "").replace("−", "-").strip()
    try:
        above, _, below = plain.partition("/")
        value = float(above) / float(below or 1)
    except (ValueError, ZeroDivisionError):
        return None
    return value if math.isfinite(value) else None


def last(exercise: Exercise, panel: Panel) -> Guess | None:
    """Return the latest guess at this panel's question, None if it was never asked."""
    events = notes.read(exercise.student_dir)[0]
    mine = [event for event in events if event["kind"] == "prediction" and event.get("code") == f"{PANEL}{panel.name}"]
    value = read(str(mine[-1].get("guess", ""))) if mine else None
    return None if value is None else Guess(value, str(mine[-1].get("reason", ""))[:MOST_CHARACTERS])


def keep(exercise: Exercise, panel: Panel, submitted: Mapping[str, Any], result: float) -> tuple[Guess, str | None]:
    """Write guess, reason and result into the notes as `predict` does; return the guess, and why it was not kept."""
    guess = Guess(read(str(submitted["guess"])) or 0.0, str(submitted.get("reason") or "")[:MOST_CHARACTERS])
    # `predict` tells predictions apart by the version of the code; what a panel shows does not depend on any
    about = {"code": f"{PANEL}{panel.name}", "quantity": panel.question.quantity, "unit": panel.question.unit}
    words = f"{guess.guess:g}"
    complaint = notes.append(exercise.student_dir, "prediction", guess=words, reason=guess.reason, **about)
    seen = [[0.0, result, ""]]
    return guess, complaint or notes.append(exercise.student_dir, "result", results=seen, **about)


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

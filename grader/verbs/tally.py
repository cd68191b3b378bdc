"""Know which exercises are repaired while several are checked, and leave a note of each verdict."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grader import notes
from grader.records import Exercise, ExerciseResult, Outcome
from grader.report.text import Standing


class Tally:
    """Know which exercises are repaired: from this run, else from the notes."""

    def __init__(self, course: Sequence[Exercise], *, keeps_notes: bool = True) -> None:
        """Know nothing yet of this course; what was handed in by others has no notes."""
        self.course, self.keeps_notes = course, keeps_notes
        self.repaired: dict[str, bool] = {}
        self.complaints: set[str] = set()

    def keep(self, result: ExerciseResult, seed: int) -> None:
        """Remember a verdict, and note it where the student can find it."""
        exercise, first = result.submission.exercise, result.first_failure
        self.repaired[exercise.slug] = result.outcome is Outcome.PASSED
        if not self.keeps_notes or result.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            return
        complaint = notes.append(
            exercise.student_dir,
            "run",
            outcome=result.outcome.value,
            first_failure=first.promise.name if first else "",
            seed=seed,
            passed=sum(check.outcome is Outcome.PASSED for check in result.checks),
        )
        if complaint and not self.complaints:
            print(complaint, file=sys.stderr)
            self.complaints.add(complaint)

    def is_repaired(self, exercise: Exercise) -> bool:
        """Say whether the exercise passed when it was last checked."""
        if exercise.slug not in self.repaired and self.keeps_notes:
            self.repaired[exercise.slug] = notes.is_repaired(exercise)
        return self.repaired.get(exercise.slug, False)

    def standing(self, chapter: int) -> Standing:
        """Count what is repaired in a chapter."""
        exercises = [exercise for exercise in self.course if exercise.chapter == chapter]
        return Standing(sum(map(self.is_repaired, exercises)), len(exercises))

    def next_slug(self, after: Exercise) -> str:
        """Return the next exercise that is not repaired, from the beginning again behind the last one, or nothing."""
        place = self.course.index(after) + 1 if after in self.course else 0
        around = (*self.course[place:], *self.course[:place])
        return next((exercise.slug for exercise in around if not self.is_repaired(exercise)), "")

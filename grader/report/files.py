"""Write a report into each file that was asked for, again after every exercise, so that it is always complete."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from grader.records import Exercise, ExerciseResult, Outcome, Report, Submission

NOT_REACHED = "Not checked: an exercise before it is to be repaired first, or the time was up."


@dataclass(frozen=True)
class Files:
    """Name the files, and the exercises that were asked for.

    Who records points is told of all of these, so that the total does not depend on how far a run came.
    """

    chosen: tuple[Exercise, ...]
    json: Path | None = None
    junit: Path | None = None
    trace: Path | None = None
    gradescope: Path | None = None
    visibility: str = "visible"
    classroom50: Path | None = None
    github: bool = False

    def begin(self, report: Report) -> None:
        """Write what is known before the first exercise, for a run that is ended from outside."""
        self.write(report)
        if self.github:
            from grader.report import github

            github.write_result(self.whole(report))

    def write(self, report: Report) -> None:
        """Write every file anew."""
        if self.json:
            from grader.report import as_json

            as_json.write(report, self.json)
        if self.junit:
            from grader.report import junit

            junit.write(report, self.junit)
        if self.trace:
            from grader.report import trace

            trace.write(report, self.trace)
        if self.gradescope:
            from grader.report import gradescope

            gradescope.write(self.whole(report), self.gradescope, self.visibility)
        if self.classroom50:
            from grader.report import classroom50

            classroom50.write(self.whole(report), self.classroom50, os.environ)

    def whole(self, report: Report) -> Report:
        """Return the report with the exercises, too, that the run did not come to."""
        rest = self.chosen[len(report.results) :]
        not_run = (Submission(exercise, exercise.starter_path) for exercise in rest)
        results = (ExerciseResult(each, Outcome.NOT_RUN, message=NOT_REACHED) for each in not_run)
        return replace(report, results=(*report.results, *results))

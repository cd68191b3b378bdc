"""Write a report as Gradescope's results.json: a test for each exercise, message and hint in its output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from grader.records import ExerciseResult, Outcome, Report
from grader.report.as_json import replace_file
from grader.report.text import points_of, render
from grader.safe_text import clean

VISIBILITIES: Final = ("visible", "after_due_date", "after_published", "hidden")
OUTPUT_LIMIT = 8000  # characters: a block of the terminal, with what the submission printed


def write(report: Report, path: Path, visibility: str) -> None:
    """Replace the file at `path` with this report."""
    replace_file(path, json.dumps(to_json(report, visibility), ensure_ascii=False, indent=1) + "\n")


def to_json(report: Report, visibility: str = "visible") -> dict[str, Any]:
    """Return what Gradescope reads; the visibility is set once, above, since a hidden test would hide the total."""
    points, most = points_of(report)
    return {
        "score": points,
        "execution_time": round(sum(result.seconds for result in report.results)),
        "output": f"{points} of {most} points. isolation {report.isolation.name}, seed {report.seed}",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "extra_data": {"seed": report.seed, "isolation": report.isolation.name, "max_score": most},
        "tests": [_test(result) for result in report.results],
    }


def _test(result: ExerciseResult) -> dict[str, Any]:
    exercise = result.submission.exercise
    return {
        "name": f"{exercise.slug}: {exercise.title}",
        "number": f"{exercise.chapter}.{exercise.position}",
        "score": result.points,
        "max_score": exercise.points,
        "status": "passed" if result.outcome is Outcome.PASSED else "failed",
        "output": clean(render(result), OUTPUT_LIMIT),
        "tags": [f"ch{exercise.chapter}"],
        "extra_data": {"outcome": result.outcome.value},
    }

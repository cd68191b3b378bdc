"""Write a report as JSON, schema `ranklings/report/1`, complete whenever somebody reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from grader.errors import UsageError
from grader.records import CheckResult, ExerciseResult, Report
from grader.report.text import points_of
from grader.safe_text import clean

SCHEMA = "ranklings/report/1"
MESSAGE_LIMIT = 2000


def write(report: Report, path: Path) -> None:
    """Replace the file at `path` with this report."""
    replace_file(path, json.dumps(to_json(report), ensure_ascii=False, indent=1) + "\n")


def to_json(report: Report) -> dict[str, Any]:
    """Return the report as what JSON can hold; texts of a submission are made harmless and bounded."""
    points, max_points = points_of(report)
    return {
        "schema": SCHEMA,
        "seed": report.seed,
        "isolation": report.isolation.name,
        "points": points,
        "max_points": max_points,
        "exercises": [_exercise(result) for result in report.results],
    }


def replace_file(path: Path, text: str) -> None:
    """Write a file so that a reader finds either the old one or the whole of the new one."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}. Choose a file in a folder of yours.") from error


def _exercise(result: ExerciseResult) -> dict[str, Any]:
    exercise, first = result.submission.exercise, result.first_failure
    return {
        "slug": exercise.slug,
        "chapter": exercise.chapter,
        "title": exercise.title,
        "outcome": result.outcome.value,
        "points": result.points,
        "max_points": exercise.points,
        "seconds": round(result.seconds, 3),
        "first_failure": first.promise.name if first else None,
        "message": clean(result.message, MESSAGE_LIMIT),
        "checks": [_check(check) for check in result.checks],
    }


def _check(check: CheckResult) -> dict[str, Any]:
    return {
        "name": check.promise.name,
        "promise": check.promise.sentence,
        "outcome": check.outcome.value,
        "judged_by": check.promise.judged_by,
        "message": clean(check.message, MESSAGE_LIMIT),
        "hint": check.hint,
        "seconds": round(check.seconds, 3),
    }

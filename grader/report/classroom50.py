"""Write a report as Classroom 50's result.json, schema `classroom50/result/v1`: a test for each exercise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.records import ExerciseResult, Outcome, Report
from grader.report.as_json import replace_file
from grader.report.text import points_of
from grader.safe_text import clean

SCHEMA = "classroom50/result/v1"
MESSAGE_LIMIT = 2000
TIME = "%Y-%m-%dT%H:%M:%SZ"


def write(report: Report, path: Path, environment: Mapping[str, str]) -> None:
    """Replace the file at `path` with this report, for the submission that the runner's environment names."""
    replace_file(path, json.dumps(to_json(report, environment), ensure_ascii=False, indent=1) + "\n")


def to_json(report: Report, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what Classroom 50 collects: identity word for word from its runner, whole numbers, no unknown key."""
    points, most = points_of(report)
    now = datetime.now(UTC).strftime(TIME)
    return {
        "schema": SCHEMA,
        "classroom": environment.get("CLASSROOM", ""),
        "assignment": environment.get("ASSIGNMENT", ""),
        "assignment_type": environment.get("ASSIGNMENT_TYPE") or "individual",
        "owner": environment.get("OWNER") or environment.get("USERNAME", ""),
        "submission": environment.get("SUBMISSION_TAG", ""),
        "commit": environment.get("COMMIT_URL", ""),
        "release": environment.get("RELEASE_URL", ""),
        "review": environment.get("REVIEW_URL") or environment.get("COMMIT_URL", ""),
        "datetime": environment.get("RANKLINGS_SUBMITTED_AT") or now,
        "graded_at": now,
        "score": points,
        "max-score": most,
        "tests": [_test(result) for result in report.results],
    }


def _test(result: ExerciseResult) -> dict[str, Any]:
    """Return one exercise; what Classroom 50 does not know of a test, it keeps as it is."""
    exercise, check = result.submission.exercise, result.first_failure
    test = {
        "test-name": exercise.slug,
        "passed": result.outcome is Outcome.PASSED,
        "score": result.points,
        "max-score": exercise.points,
        "outcome": result.outcome.value,
    }
    if result.outcome is Outcome.PASSED:
        return test
    message = f"{check.promise.sentence}\n{check.message}" if check else result.message
    failure = {"first-failure": check.promise.name, "hint": check.hint} if check else {}
    return {**test, **failure, "message": clean(message, MESSAGE_LIMIT)}

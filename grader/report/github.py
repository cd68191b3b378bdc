"""Tell GitHub Actions: annotations, the two notices from which points are recorded, a summary, an output."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

from grader.records import ExerciseResult, Outcome, Report
from grader.report.text import points_of, render
from grader.safe_text import clean, for_markdown

MESSAGE_LIMIT = 1000  # characters; an annotation shows no more than a screenful
FACT_LIMIT = 700  # so that the hint after it is not cut
MAX_RESULT_BYTES = 96 << 10  # base64 of it stays below the 128 KiB of an environment string
NOTHING = {
    "name": "ranklings",
    "status": "error",
    "score": 0,
    "message": "Nothing was graded.",
    "test_code": "",
    "filename": "",
    "line_no": 0,
    "duration": 0,
}
_STATUS = {Outcome.PASSED: "pass", Outcome.FAILED: "fail", Outcome.NOT_RUN: "fail", Outcome.ERROR: "error"}


def commands(report: Report, root: Path) -> list[str]:
    """Return the workflow commands: one error for each exercise that failed, then the two notices."""
    points, max_points = points_of(report)
    totals = json.dumps({"totalPoints": points, "maxPoints": max_points}, separators=(",", ":"))
    return [
        *(_annotation(result, root) for result in report.results if result.outcome is not Outcome.PASSED),
        f"::notice title=Autograding complete::{_data(f'Points {points}/{max_points}')}",
        f"::notice title=Autograding report::{_data(totals)}",
    ]


def write_files(report: Report) -> None:
    """Append the summary and the outputs `result` and `hint` to the files that the environment names."""
    _append("GITHUB_STEP_SUMMARY", summary(report))
    write_result(report)
    end = f"end_{token_hex(16)}"  # no text can hold it
    _append("GITHUB_OUTPUT", f"hint<<{end}\n{hint(report)}\n{end}")


def write_result(report: Report) -> None:
    """Append the output `result`; of several the last one counts, so that a run which is ended has one too."""
    _append("GITHUB_OUTPUT", f"result={encoded(report)}")


def hint(report: Report) -> str:
    """Return what `check` says of the first exercise that is not repaired, for a step of its own; else nothing."""
    return next((render(result) for result in _failed(report)), "")


def encoded(report: Report) -> str:
    """Return in base64 what classroom-resources/autograding-grading-reporter reads, below its size limit."""
    for limit in (MESSAGE_LIMIT, 100, 0):
        text = json.dumps(_for_reporter(report, limit))
        if len(text) <= MAX_RESULT_BYTES:
            break
    return base64.b64encode(text.encode()).decode()


def summary(report: Report) -> str:
    """Return a Markdown table of the exercises, and below it, folded, the message of each that did not pass."""
    points, max_points = points_of(report)
    rows = "\n".join(_rows(report))
    details = "\n\n".join(map(_folded, _failed(report)))
    head = f"### Ranklings: {points} of {max_points} points\n\n| exercise | outcome | points | first failing check |"
    foot = f"isolation {report.isolation.name}, seed {report.seed}"
    return f"{head}\n|---|---|---|---|\n{rows}\n\n{details}\n\n{foot}\n"


def _append(variable: str, text: str) -> None:
    if path := os.environ.get(variable):
        with Path(path).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")


def _rows(report: Report) -> Iterator[str]:
    for result in report.results:
        check, points = result.first_failure, f"{result.points} of {result.submission.exercise.points}"
        name = f"`{check.promise.name}`" if check else ""
        yield f"| {_slug(result)} | {result.outcome.value.replace('_', ' ')} | {points} | {name} |"


def _folded(result: ExerciseResult) -> str:
    text = for_markdown(_message(result), MESSAGE_LIMIT)
    return f"<details><summary>{_slug(result)}</summary>\n\n{text}\n\n</details>"


def _for_reporter(report: Report, limit: int) -> dict[str, Any]:
    tests = [_test(result, limit) for result in report.results]
    statuses = {test["status"] for test in tests}
    status = next((status for status in ("error", "fail") if status in statuses), "pass")
    return {
        "version": 1,
        "status": status if tests else "error",
        "max_score": points_of(report)[1],
        "tests": tests or [NOTHING],  # the reporter fails without one
    }


def _test(result: ExerciseResult, limit: int) -> dict[str, Any]:
    return {
        "name": _slug(result),
        "status": _STATUS[result.outcome],
        "score": result.points,
        "message": clean(_message(result), limit) if limit else "",
        "test_code": "",
        "filename": result.submission.path.name,
        "line_no": result.first_failure.line if result.first_failure else 0,
        "duration": round(result.seconds * 1000),
    }


def _annotation(result: ExerciseResult, root: Path) -> str:
    path, check = result.submission.path, result.first_failure
    start = Path(os.environ.get("GITHUB_WORKSPACE") or root)
    base = start if path.is_relative_to(start) else root
    shown = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name
    line = f",line={check.line}" if check and check.line else ""
    kind = "warning" if result.outcome is Outcome.NOT_RUN else "error"
    return f"::{kind} file={_property(shown)}{line},title={_property(_slug(result))}::{_data(_message(result))}"


def _message(result: ExerciseResult) -> str:
    check = result.first_failure
    if check is None:
        return result.message
    hint = f"\nhint: {check.hint}" if check.hint else ""
    return f"{check.promise.sentence}\n{clean(check.message, FACT_LIMIT)}{hint}"


def _failed(report: Report) -> list[ExerciseResult]:
    return [result for result in report.results if result.outcome is not Outcome.PASSED]


def _slug(result: ExerciseResult) -> str:
    return result.submission.exercise.slug


def _data(text: str) -> str:
    """Escape a command's text as the runner unescapes it; a line end would begin another command."""
    return clean(text, MESSAGE_LIMIT).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

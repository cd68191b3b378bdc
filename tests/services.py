"""What the services that take results accept, in our words, from their sources; each raises AssertionError."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

ENVIRONMENT_LIMIT_BYTES = 128 << 10
CLASSROOM50_KEYS = {
    *("schema", "classroom", "assignment", "assignment_type", "owner", "submission", "commit", "release", "review"),
    *("datetime", "graded_at", "score", "max-score", "tests", "submitted_by"),
}
CLASSROOM50_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}


def outputs_of(text: str) -> dict[str, str]:
    """Return the outputs of a step as the Actions runner reads them; of several with one name, the last."""
    outputs, lines = {}, iter(text.splitlines())
    for line in lines:
        name, end = line.partition("=")[0], ""
        if "<<" in name or "=" not in line:
            name, _, end = line.partition("<<")
            assert name, line
            assert end, line
            held = []
            while (inner := next(lines)) != end:
                held.append(inner)
            outputs[name] = "\n".join(held)
        else:
            outputs[name] = line.partition("=")[2]
    return outputs


def reported(encoded: str) -> tuple[str, list[str]]:
    """Return the conclusion of classroom-resources/autograding-grading-reporter, and the notices that it prints."""
    assert len(encoded) < ENVIRONMENT_LIMIT_BYTES
    results = json.loads(base64.b64decode(encoded, validate=True))
    assert results["status"] in {"pass", "fail", "error"}
    assert results["tests"]
    for test in results["tests"]:
        assert type(test["score"]) is int
        assert test["status"] in {"pass", "fail", "error"}
        assert type(test["name"]) is type(test["test_code"]) is type(test["message"]) is str
        assert type(test["line_no"]) is int
    points = sum(test["score"] for test in results["tests"])
    most = results["max_score"]
    totals = json.dumps({"totalPoints": points, "maxPoints": most}, separators=(",", ":"))
    notices = [
        f"::notice title=Autograding complete::Points {points}/{most}",
        f"::notice title=Autograding report::{totals}",
    ]
    conclusion = {"pass": "success", "fail": "Some tests failed.", "error": "Some tests errored."}[results["status"]]
    return conclusion, notices if most else []


def collected(result: Any, environment: Mapping[str, str]) -> tuple[int, int]:
    """Return what Classroom 50 records of a result for the repository that `environment` names."""
    assert set(result) <= CLASSROOM50_KEYS
    assert result["schema"] == "classroom50/result/v1"
    for key in ("CLASSROOM", "ASSIGNMENT", "ASSIGNMENT_TYPE", "OWNER"):
        assert result[key.lower()] == environment[key]
    assert result["submission"].startswith("submit/")
    assert all(type(result[key]) is str and result[key] for key in ("commit", "release", "review"))
    assert all(CLASSROOM50_TIME.fullmatch(result[key]) for key in ("datetime", "graded_at"))
    for part in (result, *result["tests"]):
        assert type(part["score"]) is type(part["max-score"]) is int
        assert 0 <= part["score"] <= part["max-score"]
    for test in result["tests"]:
        assert type(test["test-name"]) is str
        assert test["test-name"]
        assert type(test["passed"]) is bool
    sums = tuple(sum(test[key] for test in result["tests"]) for key in ("score", "max-score"))
    assert sums == (result["score"], result["max-score"])
    assert len(json.dumps(result)) <= 10 << 20
    return result["score"], result["max-score"]


def shown_by_gradescope(results: Any) -> float:
    """Return the score that Gradescope records."""
    assert results["visibility"] in VISIBILITIES
    assert results["stdout_visibility"] == "hidden"
    assert type(results["execution_time"]) is int
    for test in results["tests"]:
        assert "visibility" not in test  # a hidden test would hide the total from the student
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] in {"passed", "failed"}
        assert type(test["name"]) is type(test["number"]) is type(test["output"]) is str
    assert results["score"] == sum(test["score"] for test in results["tests"])
    return float(results["score"])

"""The students' copy of the whole course: each exercise fails, then passes with its reference, wherever it runs."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.measure import ROOT, Row
from grader import catalog
from grader.records import Exercise
from grader.release.members import students_copy
from grader.release.writing import write_folder

Verdicts = dict[str, str]


def one_by_one(_torch_s: float, course: Sequence[Exercise] = ()) -> list[Row]:
    """Repair a fresh students' copy exercise by exercise; the copy, its Actions step and our own run must agree."""
    course = course or catalog.load_course(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        write_folder(students_copy(ROOT), copy)
        subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
        before, after = Verdicts(), Verdicts()
        for exercise in course:
            before |= verdicts(copy, exercise.slug)
            place = exercise.starter_path.relative_to(ROOT)
            (copy / place).write_bytes(exercise.reference_path.read_bytes())
            after |= verdicts(copy, exercise.slug)
        slugs = [exercise.slug for exercise in course]
        ours = verdicts(ROOT, *slugs, "--submission", str(copy), "--seed", "1")
        in_actions = verdicts_in_actions(copy, *slugs)
    agree = after == ours == in_actions == dict.fromkeys(slugs, "passed")
    failed, passed = (list(found.values()).count(word) for found, word in ((before, "failed"), (after, "passed")))
    return [
        Row("students' copy: exercises that fail", f"{failed} of {len(slugs)}", "all", failed == len(slugs)),
        Row("and pass with their reference", f"{passed} of {len(slugs)}", "all", passed == len(slugs)),
        Row("copy, Actions and an own run agree", "yes" if agree else f"no: {after} {ours} {in_actions}", "yes", agree),
    ]


def verdicts(root: Path, *arguments: str) -> Verdicts:
    """Check with the grader at `root` and return how each exercise ended."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _check(root, *arguments, "--json", str(report))
        exercises = json.loads(report.read_text(encoding="utf-8"))["exercises"]
    return {exercise["slug"]: exercise["outcome"] for exercise in exercises}


def verdicts_in_actions(root: Path, *arguments: str) -> Verdicts:
    """Check as the workflow does and return what its output `result` says."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        _check(root, *arguments, "--all", "--github", "--jobs", "2", GITHUB_OUTPUT=str(output))
        lines = [line for line in output.read_text(encoding="utf-8").splitlines() if line.startswith("result=")]
    tests = json.loads(base64.b64decode(lines[-1].removeprefix("result=")))["tests"]
    return {test["name"]: f"{test['status']}ed" for test in tests}


def _check(root: Path, *arguments: str, **environment: str) -> None:
    command = [sys.executable, str(root / "grader" / "__main__.py"), "check", *arguments]
    env = {**os.environ, **environment, "PYTHONPATH": str(root)}
    subprocess.run(command, cwd=root, env=env, stdout=subprocess.DEVNULL, check=False)

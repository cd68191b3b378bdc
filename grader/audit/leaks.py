"""Rules on secrets: nothing that a student may read gives the repair away."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from grader import catalog
from grader.audit.problem import Problem, line_of, lines_of
from grader.records import Exercise
from grader.tables import parse, read

HIDDEN_NAMES = re.compile(r"\breference/|\bheld_out\b|\bchecks\.py\b|\b(?:right|wrong)/")
SHORTEST_SECRET_CHARS = 16  # a shorter statement stands in every second program
TELLTALES = "B,E7,E9,F,PLE,PLW0,RET,RUF059,SIM"  # of ruff: unused names, likely bugs, odd control flow


def texts_name_nothing_hidden(exercise: Exercise) -> Iterator[Problem]:
    """What a student may read names no hidden file."""
    for path, line, text in _shown(exercise):
        if name := HIDDEN_NAMES.search(text):
            yield Problem(path, line, f"students read this, and it names `{name[0]}`; say it without")


def texts_quote_no_repair(exercise: Exercise) -> Iterator[Problem]:
    """What a student may read quotes no statement that only the reference has."""
    starter = read(exercise.starter_path)
    secrets = sorted(text for text in _statements(exercise.reference_path) if text not in starter)
    for path, line, text in _shown(exercise):
        if quoted := next((secret for secret in secrets if secret in text), None):
            yield Problem(path, line, f"students read this, and it quotes the repair: `{quoted}`; say its purpose")


def linter_is_silent(exercise: Exercise) -> Iterator[Problem]:
    """ruff, where it is installed, finds nothing in the starter: an unused variable would point at the flaw."""
    if importlib.util.find_spec("ruff") is None or not exercise.starter_path.is_file():
        return
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--output-format=json"]
    command += [f"--select={TELLTALES}", str(exercise.starter_path)]
    answer = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=60)
    for finding in json.loads(answer.stdout):
        fact = f"ruff's {finding['code']} gives the flaw away: {finding['message']}"
        yield Problem(exercise.starter_path, finding["location"]["row"], fact)


def _shown(exercise: Exercise) -> Iterator[tuple[Path, int, str]]:
    """Yield path, line and text of all that a student may read before the repair."""
    folder = exercise.student_dir
    for path in (folder / "README.md", folder / "exercise.toml", exercise.starter_path, exercise.harness_path):
        yield from ((path, number, line) for number, line in enumerate(lines_of(path), 1))
    for promise in catalog.promises(exercise):
        yield exercise.checks_path, promise.line, " ".join((promise.sentence, *promise.hints))
    path = exercise.reference_dir / "mechanism.toml"
    yield path, line_of(path, "last_hint"), catalog.mechanism(exercise).last_hint


def _statements(path: Path) -> set[str]:
    """Return the text of every statement, and of what it assigns or returns, that is long enough to be a secret."""
    source = read(path)
    statements = [node for node in ast.walk(parse(path)) if isinstance(node, ast.stmt) and not _is_text(node)]
    values = [node.value for node in statements if isinstance(node, ast.Return | ast.Assign | ast.AugAssign)]
    texts = (ast.get_source_segment(source, node) or "" for node in (*statements, *filter(None, values)))
    return {text for text in texts if len(text) >= SHORTEST_SECRET_CHARS and "\n" not in text}


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

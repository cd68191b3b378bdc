"""Count how many lines a repair changed, because a repair should be small."""

from __future__ import annotations

import ast
import difflib
import subprocess
from collections.abc import Sequence

from grader.records import Exercise

GIT_TIMEOUT_S = 5.0


def pristine(exercise: Exercise) -> str | None:
    """Return the starter as it was released, else as it was last committed; None where neither is known.

    Git is asked in our own half only, whosever file is graded: a student's repository could make it run programs.
    """
    if exercise.pristine_path.exists():
        return exercise.pristine_path.read_text(encoding="utf-8")
    chapter, slug = exercise.reference_dir.parts[-2:]
    path = exercise.reference_dir.parents[2] / "exercises" / chapter / slug / f"{slug}.py"
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(path.parent), "show", f"HEAD:./{path.name}"]
    try:
        shown = subprocess.run(command, capture_output=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):  # no git here
        return None
    return shown.stdout.decode("utf-8", "replace") if shown.returncode == 0 else None


def difference(yours: str, reference: str) -> list[str]:
    """Return the lines in which two files differ, with three around each: `-` is yours, `+` the reference's.

    The example at the end of a starter, which no reference has, is left out.
    """
    ours = reference.splitlines()
    lines = difflib.unified_diff(_without_example(yours, reference), ours, lineterm="", n=3)
    return list(lines)[2:]


def _without_example(yours: str, reference: str) -> list[str]:
    """Return the lines of your file up to the last definition that the reference has too, or all of them."""
    try:
        shared = {node.name for node in ast.parse(reference).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        nodes = [node for node in ast.parse(yours).body if getattr(node, "name", None) in shared]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = []
    ends = [node.end_lineno for node in nodes if node.end_lineno]
    return yours.splitlines()[: max(ends)] if ends else yours.splitlines()


def changed_lines(before: str, after: str) -> int:
    """Return how many lines of code differ, comments and empty lines left out; never parses what it is given."""
    return _count(*([line for line in map(_code, text.splitlines()) if line] for text in (before, after)))


def changed_lines_of_reference(before: str, after: str) -> int:
    """Return how many lines of code differ in what both files define; the reference's words and extras do not count."""
    ours, theirs = _definitions(before), _definitions(after)
    return sum(_count(ours[name], theirs[name]) for name in ours.keys() & theirs.keys())


def _code(line: str) -> str:
    return "" if line.lstrip().startswith("#") else line.rstrip()


def _count(before: Sequence[str], after: Sequence[str]) -> int:
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes if tag != "equal")


def _definitions(source: str) -> dict[str, list[str]]:
    """Return the lines of each top-level definition, without docstrings."""
    found = {}
    for node in ast.parse(source).body:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(inner) is not None:
                inner.body = inner.body[1:] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.unparse(node).splitlines()
    return found

"""Rules on programs: starter, reference and checks, read as syntax trees."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from grader import catalog
from grader.audit.problem import Problem, lines_of
from grader.records import Exercise
from grader.tables import parse

LONGEST_LINES = {"starter": 120, "checks": 150, "README": 60}
ASSEMBLING = 1.5  # an exercise that puts others together may be longer by half
FOR_STARTERS = sys.stdlib_module_names | {"numpy", "torch"}
FOR_CHECKS = FOR_STARTERS | {"grader"}
LONGEST_PROMISE_CHARS = 120


def files_are_short(exercise: Exercise) -> Iterator[Problem]:
    """Starter, checks and README keep within their numbers of lines."""
    readme = exercise.student_dir / "README.md"
    for name, path in {"starter": exercise.starter_path, "checks": exercise.checks_path, "README": readme}.items():
        longest = int(LONGEST_LINES[name] * (ASSEMBLING if exercise.uses else 1))
        if (found := len(lines_of(path))) > longest:
            yield Problem(path, found, f"has {found} lines; shorten it to {longest}")


def starter_reads_alone(exercise: Exercise) -> Iterator[Problem]:
    """A starter says what it is, imports nothing of ours and ends with its visible example."""
    path, tree = exercise.starter_path, parse(exercise.starter_path)
    if not ast.get_docstring(tree):
        yield Problem(path, 1, "has no docstring; say what the program is for")
    if not any(is_example(node) for node in tree.body):
        yield Problem(path, len(lines_of(path)), 'has no example; end it with `if __name__ == "__main__":`')
    yield from _foreign_imports(path, FOR_STARTERS | set(exercise.uses))


def signatures_agree(exercise: Exercise) -> Iterator[Problem]:
    """Starter and reference have the same public functions, classes and parameters."""
    starter, reference = signatures(exercise.starter_path), signatures(exercise.reference_path)
    for name in sorted(starter.keys() | reference.keys()):
        theirs, ours = starter.get(name), reference.get(name)
        if theirs is None:
            fact = f"`{name}` is not in the starter; begin its name with an underscore, or give the starter one"
            yield Problem(exercise.reference_path, 1, fact)
        elif ours is None and name not in called_by_example(exercise.starter_path):
            yield Problem(exercise.starter_path, 1, f"`{name}` is not in the reference; the two have one contract")
        elif ours not in {None, theirs}:
            fact = f"`{name}{theirs}` is `{name}{ours}` in the reference; the two have one contract"
            yield Problem(exercise.starter_path, 1, fact)


def checks_explain_themselves(exercise: Exercise) -> Iterator[Problem]:
    """Each check has a promise of one sentence and one to three hints."""
    for promise in catalog.promises(exercise):
        sentence, line = promise.sentence, promise.line
        if len(sentence) > LONGEST_PROMISE_CHARS or not sentence.endswith("."):
            fact = f"{promise.name}: make its promise one sentence of at most {LONGEST_PROMISE_CHARS} characters"
            yield Problem(exercise.checks_path, line, fact)
        if not 1 <= len(promise.hints) <= 3 or not all(hint.strip() for hint in promise.hints):
            fact = f"{promise.name}: {len(promise.hints)} hints; write one to three, the most general first"
            yield Problem(exercise.checks_path, line, fact)


def asserts_have_messages(exercise: Exercise) -> Iterator[Problem]:
    """Every assert in checks says in words what failed."""
    for path in _check_files(exercise):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Assert) and node.msg is None:
                yield Problem(path, node.lineno, "this assert has no message; say where, what, got and expected")


def checks_judge_alone(exercise: Exercise) -> Iterator[Problem]:
    """Checks import neither the reference nor a submission, and never compare without type, dtype and shape."""
    for path in _check_files(exercise):
        yield from _foreign_imports(path, FOR_CHECKS)
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Attribute) and node.attr == "allclose":
                fact = "`allclose` overlooks type, dtype and an empty array; use `assert_close`"
                yield Problem(path, node.lineno, fact)


def signatures(path: Path) -> dict[str, str]:
    """Return each public function and method with its parameters, and each public class with its bases."""
    found: dict[str, str] = {}
    for node in parse(path).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = f"({ast.unparse(node.args)})"
        elif isinstance(node, ast.ClassDef):
            found[node.name] = f"({', '.join(map(ast.unparse, node.bases))})"
            methods = (inner for inner in node.body if isinstance(inner, ast.FunctionDef))
            found |= {f"{node.name}.{method.name}": f"({ast.unparse(method.args)})" for method in methods}
    return {name: text for name, text in found.items() if not any(_is_private(part) for part in name.split("."))}


def is_example(node: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def called_by_example(path: Path) -> set[str]:
    """Return the names that the visible example calls: its own functions are no part of the contract."""
    calls = (node for block in parse(path).body if is_example(block) for node in ast.walk(block))
    return {node.func.id for node in calls if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def _foreign_imports(path: Path, allowed: frozenset[str] | set[str]) -> Iterator[Problem]:
    for node in ast.walk(parse(path)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.partition(".")[0] not in allowed:
                yield Problem(path, getattr(node, "lineno", 1), f"imports `{name}`, which it may not; do without")


def _check_files(exercise: Exercise) -> list[Path]:
    return [path for path in (exercise.checks_path, exercise.reference_dir / "held_out.py") if path.is_file()]

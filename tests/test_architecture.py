"""The shape of the code: who may import whom, how long a file may be, and what none may be called."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import grader
from grader.cli import VERBS

ROOT = Path(__file__).resolve().parent.parent
LONGEST_LINES = 400
NAMES_WITHOUT_AN_IDEA = {"utils", "util", "helpers", "helper", "common", "misc"}
ORDER = re.findall(r"^    (\w+)  +\S", grader.__doc__ or "", flags=re.MULTILINE)


def python_files(*folders: str) -> list[Path]:
    """Return every file of Python below the folders, as paths from the checkout."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and full name of every import of a file, inside functions too."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


def place(path: Path) -> str:
    """Return the name under which a file of grader/ stands in the order."""
    return path.parts[1].removesuffix(".py")


def test_every_module_has_its_place_in_the_order() -> None:
    """The order in the docstring of grader/__init__.py names all modules, and no module that is gone."""
    modules = {place(path) for path in python_files("grader")} - {"__init__", "templates"}
    assert modules == set(ORDER)


@pytest.mark.parametrize("path", python_files("grader"), ids=str)
def test_a_module_imports_only_from_those_above_it(path: Path) -> None:
    """One direction of imports keeps the trusted core readable from the top."""
    if place(path) in {"__init__", "templates"}:
        return
    above = {"", place(path), *ORDER[: ORDER.index(place(path))]}
    ours = [(line, name) for line, name in imported(path) if name.split(".")[0] in {"grader", ""}]
    wrong = [f"{path}:{line} imports {name}" for line, name in ours if name.split(".")[1] not in above]
    assert not wrong


def test_every_verb_has_its_session() -> None:
    """`nox -s SESSION -- ARGS` and `python -m grader VERB ARGS` are the same thing."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    decorated = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    sessions = {node.name.rstrip("_") for node in decorated}
    assert sessions - {"tests", "browser", "lint", "bench"} == set(VERBS)


def test_the_grader_imports_nothing_but_its_dependencies() -> None:
    """Neither exercises nor their reference are ever modules of the trusted process."""
    names = {name.split(".")[0] for path in python_files("grader") for _, name in imported(path)}
    assert not names & {"reference", "exercises", "tests", "checks"}


def test_exercises_import_nothing_of_ours() -> None:
    """A starter is plain Python on numpy and torch, and reads well alone."""
    files = [path for path in python_files("exercises") if path.name != "playground.py"]
    assert not [f"{path}:{line}" for path in files for line, name in imported(path) if name.startswith("grader")]


def test_no_file_is_too_long_to_read_at_one_sitting() -> None:
    """What grows beyond 400 lines holds two ideas."""
    files = python_files("grader", "tests", "browser", "exercises", "reference")
    lengths = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in files}
    assert not {str(path): length for path, length in lengths.items() if length > LONGEST_LINES}


def test_no_module_is_named_for_having_no_idea() -> None:
    """A name such as `utils` attracts whatever has no place."""
    parts = {part.removesuffix(".py") for path in python_files("grader", "tests", "reference") for part in path.parts}
    assert not parts & NAMES_WITHOUT_AN_IDEA

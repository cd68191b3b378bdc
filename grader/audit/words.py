"""Rules on texts: README.md, exercise.toml, mechanism.toml, notes.md and the docstrings of repairs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from grader import catalog
from grader.audit.folders import repairs
from grader.audit.problem import Problem, line_of, lines_of
from grader.records import Exercise
from grader.tables import parse

HEADINGS = ("The story", "Your task", "Contract", "The tempting assumption", "Repaired means")
LEFT_TO_WRITE = re.compile(r"\bWRITE: (.+?)(?:\"\"\"|\"|-->)?$")  # the marks of the pattern that `new` copies
LINK = re.compile(r"https?://\S{4,}")


def parts_are_written(exercise: Exercise) -> Iterator[Problem]:
    """Nothing of the pattern is left; each of its marks says what to write there."""
    for folder in (exercise.student_dir, exercise.reference_dir):
        for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".md", ".toml"}):
            for number, line in enumerate(lines_of(path), 1):
                if mark := LEFT_TO_WRITE.search(line):
                    yield Problem(path, number, f"left to write: {mark[1].strip()}")


def readme_has_its_headings(exercise: Exercise) -> Iterator[Problem]:
    """README.md has the exercise's title and the five headings in order, a text under each."""
    path = exercise.student_dir / "README.md"
    if not (lines := lines_of(path)):
        return
    if lines[0] != f"# {exercise.title}":
        yield Problem(path, 1, f"begins without the title in exercise.toml; write `# {exercise.title}`")
    _, *sections = re.split(r"^## ", "\n".join(lines), flags=re.MULTILINE)
    headings = tuple(section.partition("\n")[0] for section in sections)
    if headings != HEADINGS:
        fact = f"has the headings {', '.join(headings) or 'of nothing'}; write {', '.join(HEADINGS)}, in this order"
        yield Problem(path, 1, fact)
    for section in sections:
        heading, _, text = section.partition("\n")
        if not text.strip():
            yield Problem(path, line_of(path, f"## {heading}"), "nothing stands under this heading; write it")


def settings_are_complete(exercise: Exercise) -> Iterator[Problem]:
    """exercise.toml leaves room between exercises, links where the flaw was seen, and declares an experiment."""
    path, experiment = exercise.student_dir / "exercise.toml", exercise.experiment
    if exercise.position % 10:
        yield Problem(path, line_of(path, "position"), "`position` is no multiple of ten; leave room between exercises")
    if not any(LINK.fullmatch(source) for source in exercise.sources):
        yield Problem(path, line_of(path, "sources"), "`sources` has no link; say where the flaw was seen in the wild")
    if experiment is None:
        yield Problem(path, 1, "`[predict]` is missing; declare one control, one quantity and a question about them")
        return
    if len(set(experiment.values)) < 2:
        yield Problem(path, line_of(path, "values"), "`values` has fewer than two values, so nothing changes; add one")
    if experiment.function not in _functions(exercise.harness_path):
        fact = f"`{experiment.function}` is no function of harness.py; write it there"
        yield Problem(path, line_of(path, "function"), fact)


def mechanism_is_complete(exercise: Exercise) -> Iterator[Problem]:
    """mechanism.toml has three distractors unlike the answer, and two links to read on."""
    path, mechanism = exercise.reference_dir / "mechanism.toml", catalog.mechanism(exercise)
    texts = {mechanism.sentence, *(text for text, _ in mechanism.distractors)}
    if len(mechanism.distractors) != 3 or len(texts) != 4:
        line = line_of(path, "[[distractors]]")
        yield Problem(path, line, "needs three distractors, none like another or like the answer")
    if sum(bool(LINK.fullmatch(url)) for _, url in mechanism.reading) < 2:
        yield Problem(path, line_of(path, "[[reading]]"), "needs two links to read on, to free primary sources")


def notes_link_the_wild(exercise: Exercise) -> Iterator[Problem]:
    """notes.md says with a link where the flaw was seen."""
    path = exercise.reference_dir / "notes.md"
    if path.is_file() and not any(LINK.search(line) for line in lines_of(path)):
        yield Problem(path, 1, "has no link; say where this flaw was seen in the wild")


def repairs_say_what_they_are(exercise: Exercise) -> Iterator[Problem]:
    """A right repair's docstring says what differs; a wrong one's what was believed, and which check catches it."""
    names = {promise.name for promise in catalog.promises(exercise)}
    for path in (*repairs(exercise, "right"), *repairs(exercise, "wrong")):
        if not docstring(path):
            yield Problem(path, 1, "has no docstring; its first line says what differs, or what was believed")
        elif path.parent.name == "wrong" and (name := caught_by(path)) not in names:
            fact = f"is caught by `{name}`, which is no check" if name else "names no check"
            yield Problem(path, line_of(path, "Caught by:"), f"{fact}; write `Caught by: check_...` into its docstring")


def docstring(path: Path) -> str:
    """Return the docstring of a file of Python, or nothing."""
    return ast.get_docstring(parse(path)) or ""


def caught_by(path: Path) -> str:
    """Return the name of the check by which a wrong repair says that it is caught, or nothing."""
    mark = re.search(r"^Caught by: (\w+)\.?$", docstring(path), flags=re.MULTILINE)
    return mark[1] if mark else ""


def _functions(path: Path) -> set[str]:
    return {node.name for node in parse(path).body if isinstance(node, ast.FunctionDef)} if path.is_file() else set()

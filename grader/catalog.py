"""Read the course from its folders: each `exercise.toml` and what lies beside it; no exercise or check is imported."""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast
from zlib import crc32

from grader.errors import UsageError
from grader.records import Exercise, Experiment, JudgedBy, Limits, Mechanism, Promise, Transport
from grader.safe_text import did_you_mean
from grader.sealed import reference_of
from grader.tables import Table, broken, demand, parse, read

_CHAPTER = re.compile(r"ch(\d+)_[a-z0-9_]+")
_SLUG = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_FORMER = re.compile(rf"{_CHAPTER.pattern}/{_SLUG.pattern}")
_TAKEN_NAMES = sys.stdlib_module_names | {"torch", "numpy", "pytest", "rich", "grader", "checks", "harness", "held_out"}
_IMPORT = re.compile(r"^(?:from|import)[ ]+(?:\w+,[ ]*)*((?:numpy|torch)(?:\.\w+)*)\b", re.MULTILINE)
_LATE = {  # what torch imports only when it is first used, for seconds, and every rank anew
    "torch._dynamo": re.compile(
        r"\boptim\.[A-Z]\w+\("
        r"|\b(?:DistributedDataParallel|fully_shard|DTensor|distribute_tensor|parallelize_module|(?:init_d|D)evice_?[mM]esh)\b"
    ),
    "torch.fx.experimental.symbolic_shapes": re.compile(r"\.backward\(\s*[^\s)]|\bautograd\.grad\("),
}
_JUDGES = ("value", "network", "observation")
_TRANSPORTS = ("none", "simulated", "gloo")


def find_root() -> Path:
    """Return the checkout that holds this package, `exercises/`, and `reference/` or its sealed file."""
    return Path(__file__).absolute().parent.parent


def exercise_seed(slug: str, run_seed: int) -> int:
    """Derive the seed of one exercise, the same whether it is graded alone or with others."""
    return crc32(f"{run_seed}:{slug}".encode())


def load_course(root: Path) -> tuple[Exercise, ...]:
    """Return every exercise in course order: by chapter, then by position.

    Raises:
        BrokenExercise: a file is not as it should be; `path:line: fact`.
    """
    exercises = sorted(
        (
            load_exercise(root, file)
            for chapter in (root / "exercises").glob("ch*_*")
            if _CHAPTER.fullmatch(chapter.name)
            for file in chapter.glob("*/exercise.toml")
        ),
        key=lambda exercise: (exercise.chapter, exercise.position, exercise.slug),
    )
    _refuse_clashes(exercises)
    return tuple(exercises)


def load_exercise(root: Path, file: Path) -> Exercise:
    """Return the exercise that the `exercise.toml` at `file` describes."""
    slug, chapter = file.parent.name, file.parent.parent.name
    table = Table.read(file)
    demand(_is_usable_name(slug), file, 1, f"`{slug}` cannot name an exercise: use lower case, no keyword, no module")
    reference_dir = reference_of(root) / chapter / slug
    exercise = Exercise(
        slug=slug,
        chapter=int(cast("re.Match[str]", _CHAPTER.fullmatch(chapter))[1]),
        title=table.take("title", str),
        position=table.take("position", int),
        difficulty=table.take("difficulty", int),
        points=table.take("points", int),
        student_dir=file.parent,
        reference_dir=reference_dir,
        limits=_limits(table.take("limits", dict, {}), table),
        preload=_preload(*(reference_dir / name for name in (f"{slug}.py", "starter.py", "harness.py"))),
        uses=table.take_texts("uses"),
        data=table.take_texts("data"),
        sources=table.take_texts("sources"),
        experiment=_experiment(table.take("predict", dict, None), table),
        former_dirs=tuple(file.parents[2] / name for name in table.take_texts("formerly")),
    )
    table.demand(1 <= exercise.difficulty <= 5, "difficulty", "`difficulty` goes from 1 to 5")
    are_folders = all(_FORMER.fullmatch(each.relative_to(file.parents[2]).as_posix()) for each in exercise.former_dirs)
    table.demand(are_folders, "formerly", "`formerly` lists folders such as `ch1_data_parallel/old_name`")
    table.demand(exercise.position > 0, "position", "`position` is a positive number")
    table.demand(exercise.points > 0, "points", "`points` is a positive number")
    table.refuse_rest()
    return exercise


def select(course: Sequence[Exercise], slugs: Sequence[str]) -> tuple[Exercise, ...]:
    """Return the named exercises in course order; a name may be a path to the exercise's folder or file.

    Raises:
        UsageError: there is no such exercise.
    """
    known = {exercise.slug: exercise for exercise in course}
    wanted = {Path(slug).name.removesuffix(".py") or slug for slug in slugs}
    for slug in sorted(wanted - known.keys()):
        raise UsageError(f"There is no exercise `{slug[:100]}`.{did_you_mean(slug, known)} `nox -s list` shows all.")
    return tuple(exercise for exercise in course if exercise.slug in wanted)


def used_paths(exercise: Exercise, course_dir: Path | None = None) -> dict[str, Path]:
    """Return the file of each exercise that this one uses: in the half at `course_dir`, else the repaired one."""
    half = course_dir or exercise.reference_dir.parents[1]
    chapters = {slug: next(half.glob(f"ch*_*/{slug}"), half / slug) for slug in exercise.uses}
    return {slug: folder / f"{slug}.py" for slug, folder in chapters.items()}


def promises(exercise: Exercise, file: Path | None = None) -> tuple[Promise, ...]:
    """Return what each check says of itself, in teaching order, read and not imported from `checks.py` or `file`."""
    file = file or exercise.checks_path
    found = tuple(
        _promise(node, file)
        for node in parse(file).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    )
    demand(bool(found), file, 1, "has no check: a function `check_...`")
    names = [promise.name for promise in found]
    for promise in found[1:]:
        demand(names.count(promise.name) == 1, file, promise.line, f"{promise.name} stands here twice")
    return found


def mechanism(exercise: Exercise) -> Mechanism:
    """Return the exercise's failure mechanism and what belongs to it."""
    table = Table.read(exercise.reference_dir / "mechanism.toml")
    found = Mechanism(
        sentence=table.take("mechanism", str),
        distractors=table.take_pairs("distractors", "text", "why_not"),
        explanation=table.take("explanation", str),
        last_hint=table.take("last_hint", str),
        reading=table.take_pairs("reading", "title", "url"),
    )
    table.refuse_rest()
    return found


def _limits(entries: dict[str, Any], outer: Table) -> Limits:
    table, defaults = outer.inner(entries, "limits"), Limits()
    values = {
        field.name: table.take(field.name, type(getattr(defaults, field.name)), getattr(defaults, field.name))
        for field in fields(Limits)
    }
    table.refuse_rest()
    return Limits(**values)


def _experiment(entries: dict[str, Any] | None, outer: Table) -> Experiment | None:
    if entries is None:
        return None
    table = outer.inner(entries, "predict")
    texts = {key: table.take(key, str) for key in ("question", "function", "control", "quantity", "unit")}
    values, transport = table.take("values", list), table.take("transport", str, "none")
    are_numbers = bool(values) and all(type(value) in {int, float} for value in values)
    table.demand(are_numbers, "values", "`values` is no list of numbers")
    table.demand(transport in _TRANSPORTS, "transport", f"`transport` is one of {', '.join(_TRANSPORTS)}")
    table.refuse_rest()
    return Experiment(**texts, values=tuple(values), transport=cast("Transport", transport))


def _promise(node: ast.FunctionDef, file: Path) -> Promise:
    def insist(holds: bool, fact: str) -> None:
        demand(holds, file, node.lineno, f"{node.name}: {fact}")

    sentence = " ".join((ast.get_docstring(node) or "").split())
    insist(bool(sentence), "the docstring is missing, which is the promise to the student")
    options = _options(node, file)
    hints, judged_by, guards = options.get("hints", ()), options.get("judged_by", "value"), options.get("guards", "")
    insist(isinstance(hints, tuple) and all(type(hint) is str for hint in hints), "`hints` is no tuple of texts")
    insist(judged_by in _JUDGES, f"`judged_by` is one of {', '.join(_JUDGES)}")
    insist(isinstance(guards, str), "`guards` is no text")
    return Promise(
        name=node.name,
        sentence=sentence,
        hints=cast("tuple[str, ...]", hints),
        judged_by=cast("JudgedBy", judged_by),
        guards=cast("str", guards),
        line=node.lineno,
    )


def _options(node: ast.FunctionDef, file: Path) -> dict[str, object]:
    """Return the keyword arguments of the decorator `@check(...)`, all of them literals."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in {"check", "judging.check"}:
            try:
                return {option.arg or "": ast.literal_eval(option.value) for option in decorator.keywords}
            except ValueError:
                raise broken(file, decorator.lineno, f"{node.name}: @check(...) takes literals only") from None
    raise broken(file, node.lineno, f"{node.name} is not decorated with @check(hints=...)")


def _preload(*files: Path) -> tuple[str, ...]:
    """Return the modules of numpy and torch that a submission will import anyway, as reference and harness do.

    A guess suffices, and parsing every reference would take longer than all else that `list` does.
    """
    return imports_of(*(read(file) for file in files if file.exists()))


def imports_of(*sources: str) -> tuple[str, ...]:
    """Return the modules of numpy and torch that these sources will import, those included that torch imports late."""
    wanted = {name for source in sources for name in _IMPORT.findall(source)}
    if any(name[0] == "t" for name in wanted):
        wanted |= {"torch.distributed"}
        wanted |= {name for name, pattern in _LATE.items() if any(map(pattern.search, sources))}
    return tuple(sorted(wanted))


def _refuse_clashes(course: Sequence[Exercise]) -> None:
    places: dict[tuple[int, int], Exercise] = {}
    earlier: dict[str, Exercise] = {}
    for exercise in course:
        file = exercise.student_dir / "exercise.toml"
        for used in exercise.uses:
            fact = f"`uses` names `{used}`, which is no earlier exercise.{did_you_mean(used, earlier)}"
            demand(used in earlier, file, 1, fact)
        other = places.setdefault((exercise.chapter, exercise.position), exercise)
        demand(other is exercise, file, 1, f"has the position of {other.slug}")
        other = earlier.setdefault(exercise.slug, exercise)
        demand(other is exercise, file, 1, f"has the name of an exercise in chapter {other.chapter}")


def _is_usable_name(slug: str) -> bool:
    return bool(_SLUG.fullmatch(slug)) and slug not in _TAKEN_NAMES and not keyword.iskeyword(slug)

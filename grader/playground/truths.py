"""Serve a chapter's truth models: plain lists, numbers and texts, computed here from what lies under reference/."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

from grader.playground.panels import Numbers, Truth, Value
from grader.sealed import reference_of
from grader.tables import read


def open_truth(root: Path, chapter: str) -> Truth:
    """Return what answers for the chapter's panels: the name of a model and settings in, numbers out."""
    models = _load(reference_of(root) / chapter / "truth.py")

    @functools.lru_cache(maxsize=256)
    def compute(name: str, settings: tuple[tuple[str, Value], ...]) -> Numbers:
        numbers: Numbers = getattr(models, name)(**dict(settings))
        return numbers

    return lambda name, settings: compute(name, tuple(sorted(settings.items())))


@functools.cache
def _load(file: Path) -> ModuleType:
    """Execute a file of ours as a module of its own."""
    module = ModuleType(f"truth of {file.parent.name}")
    exec(compile(read(file), module.__name__, "exec", dont_inherit=True), vars(module))
    return module

"""Load a submission from its exact path, and say where in it an exception came from."""

from __future__ import annotations

import linecache
import sys
import traceback
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

MAX_MESSAGE = 2000
MAX_FRAMES = 8


def load(name: str, path: str) -> ModuleType:
    """Import the file at `path` under `name`: no search path, cache or package can stand in for it."""
    loader = SourceFileLoader(name, path)
    module = ModuleType(name)
    module.__spec__, module.__loader__, module.__file__ = ModuleSpec(name, loader, origin=path), loader, path
    sys.modules[name] = module
    exec(loader.source_to_code(loader.get_data(path), path), vars(module))
    return module


def describe_exception(error: BaseException, path: str) -> dict[str, Any]:
    """Return the type, the message and the lines of the submission that `error` passed through, innermost last."""
    frames = [
        [entry.lineno or 0, entry.name, linecache.getline(path, entry.lineno or 0).strip()[:200]]
        for entry in traceback.extract_tb(error.__traceback__)
        if entry.filename == path
    ]
    if isinstance(error, SyntaxError) and error.filename == path:
        frames.append([error.lineno or 0, "", (error.text or "").rstrip()[:200]])
    return {"type": type(error).__name__[:100], "message": _message(error), "frames": frames[-MAX_FRAMES:]}


def _message(error: BaseException) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        return text[:MAX_MESSAGE].encode("utf-8", "replace").decode()
    except BaseException:  # noqa: BLE001  # its own __str__ is the submission's code
        return "(its message could not be shown)"

"""Start one of this package's programs: `python -B boot.py grader.ranks.server ARGUMENTS`.

It loads the package `grader` from where this file lies, so that the checkout is not on `sys.path`: a submission cannot
import from it, and nothing in it can stand in for a module of the standard library.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path


def load_package() -> None:
    """Make `grader` importable without a search path."""
    folder = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "grader", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None, "a source file always yields a spec"
    assert spec.loader is not None, "and a loader"
    sys.modules["grader"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load_package()
    importlib.import_module(sys.argv[1]).main(sys.argv[2:])

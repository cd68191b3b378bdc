"""Measure everything or the parts named, print it, keep it in BENCH.md: `python -m bench [NAME ...]`, see PARTS."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version

from bench import checks, classroom, hostile, ranks, students
from bench.measure import ROOT, Row, import_torch_s

Part = Callable[[float], list[Row]]
PARTS: dict[str, Part] = {
    "check": checks.one_check,
    "starts": ranks.starts,
    "memory": ranks.memory,
    "endurance": ranks.endurance,
    "price": hostile.price,
    "corpus": hostile.corpus,
    "fuzz": hostile.fuzz,
    "kills": hostile.kills,
    "students": students.one_by_one,
    "class": classroom.a_class,
}
HEAD = """# Measurements

Written by `nox -s bench`, part by part; nothing here is a test, and no test depends on time. T is the wall time of
`python -c "import torch"` in the same run. A part that is measured again replaces its rows.

| part | what | measured | bound | | when and where |
|---|---|---|---|---|---|
"""
RESULTS = ROOT / "BENCH.md"


def main(names: list[str]) -> int:
    """Run the parts named, or all; return 1 if a bound was not kept."""
    torch_s, kept = import_torch_s(), True
    for name in names or PARTS:
        rows = PARTS[name](torch_s)
        for row in rows:
            print(f"{row.what}: {row.value}", f"(bound {row.bound})" * bool(row.bound), "EXCEEDED" * (not row.kept))
        keep(name, rows)
        kept = kept and all(row.kept for row in rows)
    return 0 if kept else 1


def keep(part: str, rows: list[Row]) -> None:
    """Write the rows of a part into BENCH.md, in the order of the parts."""
    old = RESULTS.read_text(encoding="utf-8").splitlines(keepends=True) if RESULTS.exists() else []
    lines = {name: [line for line in old if line.startswith(f"| {name} |")] for name in PARTS}
    where = f"{datetime.now(UTC).date()}, {machine()}"
    lines[part] = [
        f"| {part} | {row.what} | {row.value} | {row.bound} | {'' if row.kept else 'exceeded'} | {where} |\n"
        for row in rows
    ]
    RESULTS.write_text(HEAD + "".join(line for name in PARTS for line in lines[name]), encoding="utf-8")


def machine() -> str:
    """Return where this was measured."""
    system = f"{platform.system()} {platform.release().split('-')[0]}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}, torch {version('torch')}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

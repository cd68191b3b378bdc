"""Measure everything, print it, and write BENCH.md: `python -m bench [NAME ...]`, names as in PARTS."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
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

Written by `nox -s bench`; nothing here is a test, and no test depends on time. T is the wall time of
`python -c "import torch"` in the same run.

{machine}

| what | measured | bound | |
|---|---|---|---|
"""


def main(names: list[str]) -> int:
    """Run the parts named, or all; return 1 if a bound was not kept."""
    torch_s = import_torch_s()
    rows: list[Row] = []
    for name in names or PARTS:
        for row in PARTS[name](torch_s):
            print(f"{row.what}: {row.value}", f"(bound {row.bound})" * bool(row.bound), "EXCEEDED" * (not row.kept))
            rows.append(row)
    if not names:
        lines = [f"| {row.what} | {row.value} | {row.bound} | {'' if row.kept else 'exceeded'} |\n" for row in rows]
        (ROOT / "BENCH.md").write_text(HEAD.format(machine=machine()) + "".join(lines), encoding="utf-8")
    return 0 if all(row.kept for row in rows) else 1


def machine() -> str:
    """Return where this was measured."""
    system = f"{platform.system()} {platform.release().split('-')[0]}, {os.cpu_count()} cores"
    return f"{system}, Python {platform.python_version()}, torch {version('torch')}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The two golden files of an exercise: what the starter prints, and what a student sees on the first `check`.

Neither holds seed, level or seconds: they are of the run, not of the exercise.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from grader import catalog
from grader.audit.problem import Problem, lines_of
from grader.records import Exercise, ExerciseResult
from grader.report import text

EXAMPLE_TIMEOUT_S = 120.0
Golden = dict[Path, str]


def golden_texts(exercise: Exercise, first_report: ExerciseResult, printed: str) -> Golden:
    """Return what the golden files of an exercise should hold."""
    return {
        exercise.reference_dir / "first_output.txt": printed.rstrip() + "\n",
        exercise.reference_dir / "first_report.txt": text.render(first_report).rstrip() + "\n",
    }


@contextmanager
def as_reached(exercise: Exercise) -> Iterator[Path]:
    """Yield the folder of an exercise as a student has it who comes to it: what it uses is repaired."""
    if not exercise.uses:
        yield exercise.student_dir
        return
    with tempfile.TemporaryDirectory(prefix="ranklings-") as course:
        for path in catalog.used_paths(exercise).values():
            folder = Path(course, path.parents[1].name, path.stem)
            folder.mkdir(parents=True)
            shutil.copy(path, folder)
        yield shutil.copytree(exercise.student_dir, Path(course, exercise.student_dir.parent.name, exercise.slug))


def printed_by(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Return what an example prints; a last line says so if it does not end or ends in an error."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            printed, _ = process.communicate(timeout=EXAMPLE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its ranks when it is asked to
            printed, _ = process.communicate()
            return f"{printed}(did not end within {EXAMPLE_TIMEOUT_S:.0f} s)\n"
    return f"{printed}(exit code {process.returncode})\n" if process.returncode else printed


def golden_files_hold(golden: Golden) -> Iterator[Problem]:
    """Each golden file holds what is printed now; the first line that differs is named."""
    for path, wanted in golden.items():
        if not path.is_file():
            continue
        old, new = lines_of(path), wanted.splitlines()
        line = next((i for i, pair in enumerate(zip(old, new, strict=False), 1) if pair[0] != pair[1]), None)
        if old != new:
            line = line or min(len(old), len(new)) + 1
            now = new[line - 1] if line <= len(new) else "nothing"
            yield Problem(path, line, f"now reads `{now.strip()[:100]}`; `audit --update` rewrites it if that is meant")


def rewrite(golden: Golden) -> list[Path]:
    """Write the golden files that changed, and return them."""
    changed = [path for path, wanted in golden.items() if lines_of(path) != wanted.splitlines()]
    for path in changed:
        path.write_text(golden[path], encoding="utf-8", newline="\n")
    return changed

"""What an audit finds: where, and the fact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BrokenExercise


@dataclass(frozen=True, order=True)
class Problem:
    """State one fact about one line that keeps an exercise from being proved."""

    path: Path
    line: int
    fact: str

    @classmethod
    def of(cls, error: BrokenExercise, root: Path) -> Problem:
        """Take the place and the fact from the sentence of an error."""
        place = re.fullmatch(r"(.+?):(\d+): (.+)", str(error), flags=re.DOTALL)
        return cls(root / place[1], int(place[2]), place[3].rstrip(".")) if place else cls(root, 1, str(error))

    def shown(self, root: Path) -> str:
        """Return the one line that is printed, its path relative to the checkout."""
        path = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        return f"{path.as_posix()}:{self.line}: {self.fact.rstrip('.')}."


def line_of(path: Path, text: str) -> int:
    """Return the number of the first line that contains the text, or 1."""
    return next((number for number, line in enumerate(lines_of(path), 1) if text in line), 1)


def lines_of(path: Path) -> list[str]:
    """Return a file's lines, none if there is no such file: a rule of its own says that it is missing."""
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []

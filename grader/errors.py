"""What may go wrong, each with its exit code.

A sentence of these is shown as it stands: the fact first, then the way out.
"""

from __future__ import annotations

from typing import ClassVar


class RanklingsError(Exception):
    """Stop the program with a sentence and an exit code."""

    exit_code: ClassVar[int] = 3


class UsageError(RanklingsError):
    """Say that the command line asked for something that does not exist."""

    exit_code = 2


class BrokenExercise(RanklingsError):
    """Say that an exercise folder cannot be used as it is; `path:line: fact`."""


class GraderError(RanklingsError):
    """Say that the grader itself could not do its work; never a verdict on a submission."""


class RefusedFile(RanklingsError):
    """Say why a student's file is not taken: missing, not ordinary, not UTF-8, too large."""

    exit_code = 1


class StudentFailure(AssertionError):
    """Say in whole sentences how a submission failed while it ran; raised inside a check, so that the check fails."""

    def __init__(
        self, message: str, *, kind: str, rank: int | None = None, line: int | None = None, output: str = ""
    ) -> None:
        """Keep the sentence, the kind (raised, died, timeout, deadlock, mismatch, ...), and rank and line at fault."""
        super().__init__(message)
        self.message, self.kind, self.rank, self.line, self.output = message, kind, rank, line, output

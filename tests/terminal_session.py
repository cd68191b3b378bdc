"""Sit at a real pseudo-terminal, in a course of real files."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 60


def command_line(course: Path, *arguments: str) -> list[str]:
    """Return what runs the grader of this checkout on a course."""
    script = "import sys; from pathlib import Path; from grader import cli; "
    script += f"sys.exit(cli.main(sys.argv[1:], Path({str(course)!r})))"
    return [sys.executable, "-c", script, *arguments]


def sit_down(course: Path, *arguments: str, columns: int = 100) -> pexpect.spawn:
    """Start a verb at a terminal of its own."""
    program, *rest = command_line(course, *arguments)
    return pexpect.spawn(
        program, rest, cwd=str(ROOT), encoding="utf-8", timeout=PATIENCE_S, dimensions=(40, columns), maxread=1 << 16
    )


def answer(session: pexpect.spawn, prompt: str, words: str) -> str:
    """Wait for a prompt, type an answer and return what was shown until then."""
    session.expect_exact(f"{prompt}: ")
    session.sendline(words)
    return str(session.before)


def rest(session: pexpect.spawn) -> tuple[int | None, str]:
    """Wait for the end and return the exit code and what was shown last."""
    session.expect(pexpect.EOF)
    session.close()
    return session.exitstatus, str(session.before).replace("\r\n", "\n")

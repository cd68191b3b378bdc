"""Read the command line and run one verb of it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from grader import catalog
from grader.errors import RanklingsError, UsageError
from grader.safe_text import did_you_mean

INTERRUPTED = 130

VERBS = {
    "check": "grade your repairs: in course order up to the first exercise that is not repaired, or those you name",
    "run": "run an exercise's own example",
    "list": "show the course, what is repaired and what is next",
    "hint": "get the next, stronger hint for the check that failed",
    "predict": "say what an experiment will show, then see what your code does",
    "explain": "once an exercise passes: name what was wrong, then read the explanation",
    "quiz": "take a chapter's knowledge check: ten questions, an explanation after each answer",
    "reset": "get the original starter back; your file is kept beside it",
    "playground": "open the interactive pages: guess, then see the truth and your own curve",
    "doctor": "say what this machine offers: isolation, torch, cores, memory",
    "new": "begin a new exercise: the two folders, filled with a pattern",
    "release": "write the students' copy, bring one up to date, pack it for Gradescope or Classroom 50",
    "grade": "grade a class: a folder of cloned repositories or archives in, grades, feedback and a report out",
    "audit": "prove exercises: starters fail where they should, right repairs pass, wrong ones are caught",
}


class Verb(Protocol):
    """Say what each module of `grader.verbs` offers."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments to its parser."""

    def run(self, arguments: argparse.Namespace, root: Path) -> int:
        """Do the verb's work in the checkout at `root` and return the exit code."""


def main(argv: Sequence[str] | None = None, root: Path | None = None) -> int:
    """Run the verb that `argv` names and return the exit code.

    Args:
        argv: what follows the program's name; by default, what this process was started with.
        root: the checkout with `exercises/` and the other half; by default, the one that holds this package.
    """
    for stream in (sys.stdout, sys.stderr):
        _write_utf8(stream)
    _read_anything(sys.stdin)
    try:
        return _run(list(sys.argv[1:] if argv is None else argv), root or catalog.find_root())
    except RanklingsError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `... | head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(argv: list[str], root: Path) -> int:
    if not argv or argv[0] in {"-h", "--help", "help"}:
        print(_help())
        return 0
    name, *rest = argv
    verbs = _verbs()
    if name not in verbs:
        raise UsageError(f"`{name}` is not a verb.{did_you_mean(name, verbs)} `python -m grader` lists the verbs.")
    verb = cast("Verb", importlib.import_module(f"grader.verbs.{name}"))
    program, what = f"python -m grader {name}", _sentence(VERBS[name])
    parser = argparse.ArgumentParser(program, description=what, allow_abbrev=False)
    verb.configure(parser)
    return verb.run(parser.parse_args(rest), root)


def _verbs() -> dict[str, str]:
    """Return the verbs of this copy: the students' has none of an instructor."""
    folder = Path(__file__).parent / "verbs"
    return {name: what for name, what in VERBS.items() if (folder / f"{name}.py").is_file()}


def _help() -> str:
    lines = [f"  {name:<12}{what}" for name, what in _verbs().items()]
    return "\n".join(
        ["usage: python -m grader VERB [ARGS]      or: nox -s VERB -- [ARGS]", "", *lines, "", "VERB --help says more."]
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _write_utf8(stream: object) -> None:
    """Write UTF-8 into files and pipes, and never fail on a character that a terminal cannot show."""
    from io import TextIOWrapper

    if isinstance(stream, TextIOWrapper):
        keep = stream.isatty() or "PYTHONIOENCODING" in os.environ
        stream.reconfigure(encoding=stream.encoding if keep else "utf-8", errors="backslashreplace")


def _read_anything(stream: object) -> None:
    """Take a byte that is no text for a sign that nobody meant, rather than stop."""
    from io import TextIOWrapper

    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")

"""Say in words how a rank failed: what it raised, what it lacks, how its process ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from grader.launch import Ending

CONSEQUENCE = re.compile(r"closed by peer|reset by peer|Broken pipe|gloo|timed? ?out", re.IGNORECASE)
SYNTAX_ERRORS = frozenset({"SyntaxError", "IndentationError", "TabError"})


def describe_answer(answer: Mapping[str, Any], name: str, file: str, who: str) -> tuple[str, int]:
    """Return the sentences for an answer that is not a value, and the line of the submission (0 if unknown)."""
    if answer["is"] == "missing":
        return describe_missing(answer, file), 0
    if answer["is"] == "signature":
        words = f"{name}{answer['signature']} cannot be called with {answer['given']} arguments: {answer['message']}."
        return f"{words} The contract in the README has its arguments.", 0
    if answer["is"] == "unsendable":
        return f"{who}{name} answered something that cannot be sent back: {answer['message']}.", 0
    return describe_raised(answer, name, file, who)


def describe_missing(answer: Mapping[str, Any], file: str) -> str:
    """Return the sentences for a function that the file does not define."""
    known = f" Did you mean {answer['close']}?" if answer["close"] else ""
    article = "an" if str(answer["found"])[:1] in "aeiou" else "a"
    found = (
        "defines no function" if answer["found"] == "nothing" else f"has {article} {answer['found']}, not a function,"
    )
    return f"{file} {found} called {answer['name']}.{known} The contract in the README has its name and arguments."


def describe_raised(answer: Mapping[str, Any], name: str, file: str, who: str) -> tuple[str, int]:
    """Return the sentences for an exception of the submission, and its innermost line there."""
    what = f"{answer['type']}: {answer['message']}" if answer["message"] else str(answer["type"])
    line, scope, text = answer["frames"][-1] if answer["frames"] else (0, "", "")
    if name == file and line:  # called by a harness: name the submission's own function
        name = answer["frames"][0][1]
    inside = f", in {scope}" if line and scope not in {"", "<module>", name} else ""
    place = f"\nline {line}{inside}: {str(text).strip()}" if line else ""
    if answer["phase"] != "load":
        return f"{who}{name} raised {what}{place}", int(line)
    if answer["type"] in SYNTAX_ERRORS and line:
        return f"{file} has a syntax error: {answer['message']}.{place}", int(line)
    if answer["type"] == "SystemExit":
        way_out = 'Move the call under `if __name__ == "__main__":`.'
        return f"{file} ended itself while it was loaded ({what}). {way_out}{place}", int(line)
    return f"{file} could not be loaded: it raised {what}{place}", int(line)


def is_consequence(answer: dict[str, Any] | None) -> bool:
    """Return whether a rank raised only because another one went away."""
    if answer is None or answer["is"] != "raised":
        return False
    return answer["type"] in {"RuntimeError", "DistBackendError", "DistNetworkError", "ConnectionError"} and bool(
        CONSEQUENCE.search(str(answer["message"]))
    )


def describe_ending(ending: Ending) -> str:
    """Return in words how a process ended."""
    if ending.signal is not None:
        try:
            name = f"{signal.Signals(ending.signal).name}, {signal.strsignal(ending.signal)}"
        except ValueError:
            name = f"signal {ending.signal}"
        return f"Your code's process was ended by {name}"
    code = "" if ending.exit_code is None else f" (exit code {ending.exit_code})"
    return f"Your code ended the Python process before it answered{code}"

"""Write lines to where a person reads: with colour and signs only where they can be shown."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TextIO, TypeVar

from grader.report.text import ASCII, INDENT, UNICODE, Line, Look, Span, paragraph, plain
from grader.safe_text import escape

# Colours by number, as every terminal of the last thirty years knows them. No library: importing one takes longer than
# all else that `list` does.
STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
Answer = TypeVar("Answer")


class Screen:
    """Show finished lines on one stream, and on a terminal one passing line about what goes on, on the other."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        """Keep the streams as they are now: pytest exchanges them while it runs."""
        self.out, self.err = out, err
        self.look = look_for(out)
        self.has_colour = _wants_colour(out)
        self._passing = ""

    def show(self, lines: Sequence[Line]) -> None:
        """Write lines that stay."""
        self.tell("")
        if not lines:
            return
        text = "\n".join("".join(map(_styled, line)) for line in lines) if self.has_colour else plain(lines)
        self.out.write(f"{text}\n")
        self.out.flush()

    @property
    def is_asked(self) -> bool:
        """Say whether somebody sits there to answer."""
        return is_terminal(sys.stdin)

    def ask(self, prompt: str, understand: Callable[[str], Answer | str]) -> Answer | None:
        """Ask until the answer is understood, showing the sentence for one that is not; None when the input ends."""
        while True:
            self.tell("")
            self.out.write(f"{INDENT}{prompt}: ")
            self.out.flush()
            answer = sys.stdin.readline()
            if not answer.endswith("\n"):
                self.out.write("\n")
            if not answer:
                return None
            understood = understand(answer.strip())
            if not isinstance(understood, str):
                return understood
            self.show(paragraph(understood, self.look, "yellow"))

    def tell(self, words: str) -> None:
        """Replace the passing line; nothing is written where nobody watches."""
        if words == self._passing or not is_terminal(self.err):
            return
        width = shutil.get_terminal_size((80, 24)).columns - 1
        shown = escape(words).replace("\n", " ")[:width]
        blank = " " * len(self._passing)
        self.err.write(f"\r{blank}\r{shown.encode(self.err.encoding, 'replace').decode(self.err.encoding)}")
        self.err.flush()
        self._passing = shown


def look_for(stream: TextIO) -> Look:
    """Return the signs that the stream can show and the width for wrapping."""
    width = min(100, shutil.get_terminal_size((100, 24)).columns) if is_terminal(stream) else 100
    return replace(UNICODE if _shows_signs(stream) else ASCII, width=width)


def is_terminal(stream: TextIO) -> bool:
    """Say whether a person watches."""
    return stream.isatty()


def _shows_signs(stream: TextIO) -> bool:
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        f"{UNICODE.passed}{UNICODE.failed}{UNICODE.dot}".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _wants_colour(stream: TextIO) -> bool:
    if not is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    if sys.platform == "win32":  # an empty command makes older consoles read escape sequences
        os.system("")
    return True


def _styled(span: Span) -> str:
    text, style = span
    codes = ";".join(str(STYLES[word]) for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text

"""Write lines to where a person reads: with colour and signs only where they can be shown."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from grader.report.text import ASCII, UNICODE, Line, Look, plain
from grader.safe_text import escape

if TYPE_CHECKING:
    from rich.console import Console


class Screen:
    """Show finished lines on one stream, and on a terminal one passing line about what goes on, on the other."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        """Keep the streams as they are now: pytest exchanges them while it runs."""
        self.out, self.err = out, err
        self.look = look_for(out)
        self._console = _console(out)
        self._passing = ""

    @property
    def has_colour(self) -> bool:
        """Say whether styles are shown."""
        return self._console is not None

    def show(self, lines: Sequence[Line]) -> None:
        """Write lines that stay."""
        self.tell("")
        if not lines:
            return
        if self._console is None:
            self.out.write(plain(lines) + "\n")
        else:
            from rich.text import Text

            for line in lines:
                self._console.print(Text.assemble(*line), soft_wrap=True)
        self.out.flush()

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


def _console(stream: TextIO) -> Console | None:
    """Return what colours lines, or None where colour is not wanted or rich is not installed."""
    if not is_terminal(stream) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream, highlight=False, markup=False, emoji=False)

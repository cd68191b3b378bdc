"""Make text that a submission wrote harmless where it is shown: terminals, workflow logs, XML, Markdown, CSV, HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

GUTTER = "  | "
LIMIT = 4000  # characters
LINES = 100
TAIL_LINES = 20

# Control, format (bidi overrides, zero width), surrogates, line and paragraph separators: what has no shape of its own.
_SHAPELESS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMAND_AT_START = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)  # GitHub trims a line before it looks for `::`
_FORMULA_STARTS = frozenset("=+-@\t\r＝＋－＠")


def clean(text: str, limit: int = LIMIT, lines: int = LINES) -> str:
    """Return `text` with nothing in it that a terminal or a CI service would obey, its end cut beyond the limits."""
    shown = escape(text[:limit])
    kept = "\n".join(shown.split("\n")[:lines])[:limit]
    if len(kept) == len(shown) and len(text) <= limit:
        return kept
    return f"{kept}\n[cut here: {_size(text)} in all]"


def tail(text: str, limit: int = LIMIT, lines: int = TAIL_LINES) -> str:
    """Return the cleaned end of `text`, which for printed output says more than its beginning."""
    text = text.rstrip()
    shown = escape(text[-limit:])
    kept = "\n".join(shown.split("\n")[-lines:])[-limit:]
    if len(kept) == len(shown) and len(text) <= limit:
        return kept
    return f"[the end of {_size(text)}]\n{kept}"


def escape(text: str) -> str:
    """Show controls and invisible characters as escapes, and break what starts a workflow command."""
    text = "".join(map(_visible, text.replace("\r\n", "\n")))
    return _COMMAND_AT_START.sub(r"\1: ", text.replace("##[", "# #["))


def gutter(text: str) -> str:
    """Put a visible margin before every line: a CI service trims spaces, then obeys what is left."""
    return "\n".join(GUTTER + line for line in text.split("\n"))


def for_xml(text: str, limit: int = LIMIT) -> str:
    """Return cleaned text without the characters that XML 1.0 forbids; the writer still escapes `<` and `&`."""
    return _NOT_IN_XML.sub("", clean(text, limit))


def for_markdown(text: str, limit: int = LIMIT) -> str:
    """Return cleaned text as a code block whose fence is longer than any run of backticks inside."""
    shown = clean(text, limit)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def for_csv(text: str, limit: int = LIMIT) -> str:
    """Return cleaned text that no spreadsheet takes for a formula."""
    shown = clean(text, limit)
    return f"'{shown}" if text[:1] in _FORMULA_STARTS or shown[:1] in _FORMULA_STARTS else shown


def for_html(text: str, limit: int = LIMIT) -> str:
    """Return cleaned text for an element or a quoted attribute."""
    from html import escape as escape_html

    return escape_html(clean(text, limit), quote=True)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return ` Did you mean ...?` with the nearest of `words`, or nothing if none is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" Did you mean `{near[0]}`?" if near else ""


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _SHAPELESS:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _size(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{len(text)} characters" if lines == 1 else f"{lines} lines, {len(text)} characters"

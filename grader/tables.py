"""Read the files of an exercise, and say `path:line: fact` where one is not as it should be."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.errors import BrokenExercise
from grader.safe_text import did_you_mean

_WORDS = {str: "text", int: "whole number", float: "number", list: "list", dict: "table", bool: "true or false"}
_WORDS |= {datetime: "date with a time and a zone"}


class Table:
    """Hand out the entries of one TOML table, each once and of the right type, and refuse what is left."""

    def __init__(self, entries: Mapping[str, Any], file: Path, text: str) -> None:
        """Keep the entries, and the file's text, in which lines are looked up."""
        self.rest, self.file, self.text, self.known = dict(entries), file, text, list[str]()

    @classmethod
    def read(cls, file: Path) -> Table:
        """Return the whole of the TOML file."""
        text = read(file)
        try:
            return cls(tomllib.loads(text), file, text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            raise broken(file, int(line[1]) if line else text.count("\n") + 1, f"is not TOML: {error}") from None

    def take(self, key: str, kind: type, *default: Any) -> Any:
        """Return the entry `key`, which must be of exactly this type; without a default it must be there."""
        self.known.append(key)
        if key not in self.rest and default:
            return default[0]
        demand(key in self.rest, self.file, 1, f"`{key}` is missing")
        value = self.rest.pop(key)
        value = float(value) if kind is float and type(value) is int else value
        self.demand(type(value) is kind, key, f"`{key}` is no {_WORDS[kind]}")
        self.demand(value != "", key, f"`{key}` is empty")
        return value

    def take_texts(self, key: str) -> tuple[str, ...]:
        """Return the entry `key` as texts, none by default."""
        texts = self.take(key, list, [])
        self.demand(all(type(text) is str for text in texts), key, f"`{key}` is no list of texts")
        return tuple(texts)

    def take_pairs(self, key: str, first: str, second: str) -> tuple[tuple[str, str], ...]:
        """Return the tables `[[key]]`, each of two texts and nothing else."""
        tables = [self.inner(table, key) for table in self.take(key, list, [])]
        pairs = tuple((table.take(first, str), table.take(second, str)) for table in tables)
        for table in tables:
            table.refuse_rest()
        return pairs

    def inner(self, table: Any, key: str) -> Table:
        """Return the table that stands under `key`."""
        self.demand(type(table) is dict, key, f"`{key}` holds something that is no table")
        return Table(table, self.file, self.text)

    def refuse_rest(self) -> None:
        """Refuse an entry that nobody took."""
        for key in self.rest:
            self.demand(False, key, f"`{key}` is not known here.{did_you_mean(key, self.known)}")

    def demand(self, holds: bool, key: str, fact: str) -> None:
        """Raise `path:line: fact` unless it holds, with the line on which `key` stands."""
        if not holds:
            raise broken(self.file, self._line(key), fact)

    def _line(self, key: str) -> int:
        """Find the line on which `key` first stands; tomllib does not tell."""
        match = re.search(rf"^[ \t]*\[*[ \t]*{re.escape(key)}\b", self.text, re.MULTILINE)
        return self.text.count("\n", 0, match.start()) + 1 if match else 1


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of one of our own Python files."""
    try:
        return ast.parse(read(file))
    except SyntaxError as error:
        raise broken(file, error.lineno or 1, f"is not Python: {error.msg}") from None


def read(file: Path) -> str:
    """Return the text of one of our own files."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fact = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        raise broken(file, 1, fact) from None


def demand(holds: bool, file: Path, line: int, fact: str) -> None:
    """Raise `path:line: fact` unless it holds."""
    if not holds:
        raise broken(file, line, fact)


def broken(file: Path, line: int, fact: str) -> BrokenExercise:
    """Return the error `path:line: fact.`."""
    return BrokenExercise(f"{_short(file)}:{line}: {fact.rstrip('.?')}{'?' if fact.endswith('?') else '.'}")


def _short(file: Path) -> str:
    """Begin the path at the checkout, as a student would type it."""
    parts = file.parts
    starts = [i for i, part in enumerate(parts) if part in {"exercises", "reference"}]
    return "/".join(parts[starts[-1] if starts else -1 :])

"""Open the interactive pages in a browser."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from grader.errors import UsageError
from grader.playground import server


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument(
        "chapter", metavar="CHAPTER", type=int, nargs="?", help="the chapter to open, by default the first"
    )
    parser.add_argument("--port", type=int, default=server.PORT, help=f"listen here (default {server.PORT}, 0 for any)")
    parser.add_argument("--no-browser", action="store_true", help="say the address, and open nothing")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Serve the pages until Ctrl-C."""
    known = server.chapters(root)
    chapter = min(known, default=None) if arguments.chapter is None else arguments.chapter
    if chapter not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise UsageError(f"There is no playground of chapter {chapter}. The chapters that have one: {numbers}.")
    if importlib.util.find_spec("marimo") is None:
        raise UsageError(
            "The playground needs the packages of the group `playground` in pyproject.toml: nox -s playground"
        )
    server.serve(root, chapter, arguments.port, browser=not arguments.no_browser)
    return 0

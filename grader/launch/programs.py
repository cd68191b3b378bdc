"""How the programs that become ranks are started: this interpreter, isolated from whatever surrounds it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

BOOT = Path(__file__).resolve().parents[1] / "ranks" / "boot.py"
SERVE = "grader.ranks.loop:serve"


def command(module: str, *arguments: object) -> list[str]:
    """Return the command line that runs `main(arguments)` of one of our modules.

    Not -I, which would also ignore PYTHONMALLOC and PYTHONHASHSEED: the environment is built anew, so that nothing
    else can come in through it.
    """
    return [sys.executable, "-s", "-P", "-B", str(BOOT), module, *map(str, arguments)]


def parent_to_die_with() -> int:
    """Return this process's number, or 0 where a child must not ask to die with it.

    The kernel counts from the end of the thread that started the child, and another than the main one may end early.
    """
    return os.getpid() if threading.current_thread() is threading.main_thread() else 0

"""What a monitor reports of its run: one JSON line a fact, over a pipe that no submission ever holds."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_WORDS = 500


@dataclass(frozen=True)
class Status:
    """Write facts into the pipe `fd`; each is short enough to arrive in one piece."""

    fd: int

    def started(self) -> None:
        """Say that the monitor of a run is there."""
        self._write({"is": "started"})

    def refused(self, words: str, rank: int | None = None) -> None:
        """Say why the sandbox could not be applied, to one rank or to all."""
        self._write({"is": "refused", "rank": rank, "words": words[:MAX_WORDS]})

    def gone(self, rank: int, code: int) -> None:
        """Say that a rank ended by itself with this exit code, or, if negative, by a signal."""
        self._write({"is": "gone", "rank": rank, "code": code})

    def failed(self, words: str) -> None:
        """Say that the monitor cannot go on, so that nothing is known of its ranks."""
        self._write({"is": "failed", "words": words[:MAX_WORDS]})

    def swept(self) -> None:
        """Say that nothing of the run is left."""
        self._write({"is": "swept"})

    def _write(self, fact: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the trusted process is gone, and with it whoever wanted to know
            os.write(self.fd, json.dumps(fact).encode() + b"\n")

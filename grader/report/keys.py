"""Read single keys from a terminal without waiting, and leave the terminal as it was."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

from grader.report.terminal import Screen, is_terminal


class Keyboard:
    """Take keys as they are pressed while it is entered; nothing where nobody sits."""

    def __init__(self, screen: Screen) -> None:
        """Take keys only if somebody also sees what they do."""
        self.is_there = is_terminal(sys.stdin) and is_terminal(screen.out)

    def __enter__(self) -> Self:
        """Take keys one by one from now on, unseen."""
        if self.is_there and sys.platform != "win32":
            import termios

            self._before = termios.tcgetattr(sys.stdin)
            self._handlers = {
                signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
                signal.SIGCONT: signal.signal(signal.SIGCONT, lambda *_: _take_single_keys()),
            }
            _take_single_keys()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        """Give the terminal back."""
        if self.is_there and sys.platform != "win32":
            import termios

            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def pressed(self) -> str:
        """Return the keys pressed since the last time, in small letters; a terminal that went away presses q."""
        if not self.is_there:
            return ""
        if sys.platform == "win32":
            import msvcrt

            keys = ""
            while msvcrt.kbhit():
                keys += msvcrt.getwch()
            return keys.lower()
        import select

        if not select.select([sys.stdin], [], [], 0)[0]:
            return ""
        try:
            data = os.read(sys.stdin.fileno(), 64)
        except OSError:
            data = b""
        return data.decode("utf-8", "replace").lower() if data else "q"

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Let whole lines be typed for a while, and seen."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()


def _take_single_keys() -> None:
    if sys.platform != "win32":
        import termios
        import tty

        tty.setcbreak(sys.stdin, termios.TCSADRAIN)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt

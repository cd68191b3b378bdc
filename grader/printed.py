"""Keep what a rank prints, bounded, apart from what the interpreter writes about one that hangs or crashes."""

from __future__ import annotations

import re

# faulthandler's words, on the same stream as the submission's; a submission that imitates them only misleads itself.
DUMP = re.compile(
    r"(?:Timeout \([\d:.]+\)!|Fatal Python error: [^\n]*)\n+(?:(?:Current thread|Thread) [^\n]*\n(?:  [^\n]*\n)*\n?)+"
    r"(?:\nExtension modules: [^\n]*\n)?"
)


class Printed:
    """Keep the beginning and the end of what one rank prints."""

    def __init__(self, limit_bytes: int) -> None:
        """Keep at most `limit_bytes`."""
        self.half, self.head, self.tail, self.total = limit_bytes // 2, bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take more output."""
        self.total += len(data)
        room = self.half - len(self.head)
        self.head += data[:room] if room > 0 else b""
        self.tail += data[max(room, 0) :]
        if len(self.tail) > 2 * self.half:
            del self.tail[: -self.half]

    def raw(self) -> str:
        """Return all that was kept, with a line that announces the cut if there was one."""
        tail = self.tail[-self.half :]
        cut = self.total - len(self.head) - len(tail)
        middle = f"\n... {cut:,} bytes left out ...\n".encode() if cut > 0 else b""
        return (bytes(self.head) + middle + bytes(tail)).decode("utf-8", "replace")

    def text(self) -> str:
        """Return what was kept without the interpreter's own stack dumps."""
        return DUMP.sub("", self.raw())

    @property
    def has_dump(self) -> bool:
        """Return whether the interpreter has written where the rank is."""
        return DUMP.search(self.raw()) is not None

    def last_line_of(self, file_name: str) -> int:
        """Return the innermost line of `file_name` in the interpreter's last stack dump; 0 if there is none."""
        dumps = DUMP.findall(self.raw())
        found = re.search(rf'File "[^"\n]*{re.escape(file_name)}", line (\d+)', dumps[-1]) if dumps else None
        return int(found[1]) if found else 0

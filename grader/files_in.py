"""Take named regular files out of a folder that somebody else may have filled, without following a link."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.errors import RefusedFile
from grader.safe_text import clean

MAX_BYTES = 1 << 20
HAS_OPENAT = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and os.listdir in os.supports_fd

# O_NONBLOCK: opening a FIFO returns at once. O_BINARY: Windows leaves line ends alone.
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_ENTER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_ENCODINGS = ("utf-8", "utf8", "ascii", "us-ascii")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_JUNCTION = getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)


def take(folder: Path, name: str) -> bytes:
    """Return the bytes of the Python file `name` in `folder`, exactly as they are.

    Args:
        folder: where to start; it must not itself be a link.
        name: the file, or a path below `folder` with `/`; no part of it may be a link.

    Raises:
        RefusedFile: the file is missing, not an ordinary file, too large, or no UTF-8 text.
    """
    source = read_regular(folder, name, MAX_BYTES)
    refuse_odd_text(name.rpartition("/")[2], source)
    return source


def read_regular(folder: Path, name: str, max_bytes: int, *, openat: bool = HAS_OPENAT) -> bytes:
    """Return the bytes of the ordinary file `name` below `folder`; `openat=False` is the way of Windows."""
    *parents, last = name.split("/")
    if not all(part and part not in {".", ".."} and "\\" not in part for part in (*parents, last)):
        raise RefusedFile(f"`{clean(name, 200)}` is not a file name inside {folder.name}.")
    try:
        with (_opened_at if openat else _opened_by_path)(folder, parents, last) as descriptor:
            return _read(descriptor, last, max_bytes)
    except OSError as error:
        raise RefusedFile(refusal(error, last)) from error


def refusal(error: OSError, name: str) -> str:
    """Say why the operating system did not let the file be read, and the way out."""
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return f"The folder of {name} is a link or no folder at all. Put the folder itself in its place."
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"{name} cannot be read: permission denied. Allow it, for example with `chmod u+r {name}`."
    if error.errno == errno.ENOENT:
        return f"The folder of {name} is missing. Restore it, for example with `git checkout`."
    return f"{name} cannot be read: {error.strerror}. Save it again as an ordinary file."


def shadowing(folder: Path) -> tuple[str, ...]:
    """Return a warning for each file in `folder` that stands in for a module when the exercise's file runs directly."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ()
    return tuple(
        f"{clean(entry.name, 100)} beside the exercise hides the module `{module}` from what runs there. Rename it."
        for entry in entries
        if (module := _module_name(entry)) and _exists_elsewhere(module)
    )


@contextmanager
def _opened_at(folder: Path, parents: list[str], last: str) -> Iterator[int]:
    """Open each step relative to the one before, so that nothing can be exchanged on the way."""
    descriptors = [os.open(folder, _ENTER)]
    try:
        for part in parents:
            descriptors.append(os.open(part, _ENTER, dir_fd=descriptors[-1]))
        refuse_missing(folder.joinpath(*parents), last, os.listdir(descriptors[-1]))  # noqa: PTH208 a descriptor, no path
        _refuse_odd_kind(os.stat(last, dir_fd=descriptors[-1], follow_symlinks=False), last)
        descriptors.append(os.open(last, _READ, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in reversed(descriptors):
            os.close(descriptor)


@contextmanager
def _opened_by_path(folder: Path, parents: list[str], last: str) -> Iterator[int]:
    """Look at each step before it is taken, and afterwards whether what was opened is what was looked at."""
    path = folder
    for part in ("", *parents):
        path = path / part
        if _is_link(path.lstat()):
            raise OSError(errno.ELOOP, "a link", str(path))
    refuse_missing(path, last, [entry.name for entry in path.iterdir()])
    seen = (path / last).lstat()
    _refuse_odd_kind(seen, last)
    descriptor = os.open(path / last, _READ)
    try:
        if not os.path.samestat(seen, os.fstat(descriptor)):
            raise RefusedFile(f"{last} was exchanged while it was read. Run again.")
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int, name: str, max_bytes: int) -> bytes:
    _refuse_odd_kind(os.fstat(descriptor), name)
    chunks, left = [], max_bytes + 1
    while left and (chunk := os.read(descriptor, left)):
        chunks.append(chunk)
        left -= len(chunk)
    content = b"".join(chunks)
    refuse_large(name, len(content), max_bytes)
    return content


def refuse_large(name: str, size: int, max_bytes: int) -> None:
    """Raise RefusedFile if a file has more bytes than it may."""
    if size > max_bytes:
        raise RefusedFile(f"{name} is larger than {max_bytes >> 10} KiB. Keep only the program in it.")


def _is_link(status: os.stat_result) -> bool:
    return stat.S_ISLNK(status.st_mode) or bool(getattr(status, "st_file_attributes", 0) & _JUNCTION)


def _refuse_odd_kind(status: os.stat_result, name: str) -> None:
    if _is_link(status) or not stat.S_ISREG(status.st_mode):
        kind = "a link" if _is_link(status) else _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise RefusedFile(f"{name} is {kind}, not an ordinary file. Put the file itself in its place.")


def refuse_missing(folder: Path, name: str, entries: list[str]) -> None:
    """Raise RefusedFile unless `name` is among the entries of the folder.

    Names are compared exactly, also where the file system does not: elsewhere the file would be missing.
    """
    if name in entries:
        return
    from difflib import get_close_matches

    near = [entry for entry in entries if entry.lower() == name.lower()]
    near += get_close_matches(name, [entry for entry in entries if entry.lower().endswith(".py")], n=1, cutoff=0.6)
    place = "/".join(folder.parts[-3:])
    found = f"; found {clean(near[0], 200)}. Rename it to {name}." if near else f". Restore it: git checkout -- {name}"
    raise RefusedFile(f"The file {name} is missing from {place}{found}")


def refuse_odd_text(name: str, source: bytes) -> None:
    """Raise RefusedFile unless this is text in UTF-8."""
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RefusedFile(f"{name} is saved as UTF-16. Save it as UTF-8.")
    if (offset := source.find(b"\0")) >= 0:
        raise RefusedFile(f"{name} holds a NUL byte at {_place(source, offset)}, so it is no text. Save it as UTF-8.")
    if (cookie := _cookie(source)) and not cookie.lower().replace("_", "-").startswith(_ENCODINGS):
        raise RefusedFile(f"{name} declares the encoding `{cookie[:40]}`. Save it as UTF-8 and remove that line.")
    try:
        source.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte 0x{source[error.start]:02x} at {_place(source, error.start)}"
        raise RefusedFile(f"{name} is not UTF-8: {where}. Save it as UTF-8.") from None


def _cookie(source: bytes) -> str:
    """Return the encoding that the first two lines declare, as PEP 263 reads them."""
    for line in source.removeprefix(codecs.BOM_UTF8).splitlines()[:2]:
        if match := _COOKIE.match(line):
            return match[1].decode("ascii", "replace")
        if not _BLANK.match(line):
            break
    return ""


def _place(source: bytes, offset: int) -> str:
    line = source.count(b"\n", 0, offset) + 1
    return f"offset {offset} (line {line})"


def _module_name(entry: Path) -> str:
    """Return the name under which `import` would find this entry, or nothing."""
    if entry.is_dir():
        return entry.name if (entry / "__init__.py").exists() else ""
    return entry.name.partition(".")[0] if entry.suffix in {".py", ".pyc", ".so", ".pyd"} else ""


def _exists_elsewhere(module: str) -> bool:
    """Find out whether Python or an installed package has a module of that name, without importing it."""
    if module in sys.stdlib_module_names:
        return True
    import sysconfig
    from importlib.machinery import PathFinder

    paths = sysconfig.get_paths()
    return PathFinder.find_spec(module, [paths["purelib"], paths["platlib"]]) is not None

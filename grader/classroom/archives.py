"""Read the wanted files of a zip or tar archive that somebody else made; nothing is ever unpacked to a disk."""

from __future__ import annotations

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from grader.errors import RefusedFile
from grader.safe_text import clean

SUFFIXES: Final = (".zip", ".tar", ".tar.gz", ".tgz")
MAX_ENTRIES: Final = 20_000
MAX_DIRECTORY_BYTES: Final = 4 << 20  # of a zip; zipfile reads it whole
MAX_KEPT_BYTES: Final = 64 << 20
MAX_UNPACKED_BYTES: Final = 128 << 20  # of a tar, which can only be read from its beginning
END_OF_ZIP, END_OF_ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError, ValueError, OSError, KeyError)


@dataclass(frozen=True)
class Entry:
    """Name one entry; `read` returns at most so many bytes of it."""

    name: str
    is_regular: bool
    is_folder: bool
    read: Callable[[int], bytes]


@dataclass(frozen=True)
class Contents:
    """Hold the wanted files by the paths that they have in the course, refusals in place of some, and other names."""

    files: Mapping[str, bytes | RefusedFile]
    neighbours: Mapping[str, tuple[str, ...]]  # the names in a wanted file's folder


def is_archive(name: str) -> bool:
    """Return whether a file's name ends as that of an archive that can be read."""
    return name.lower().endswith(SUFFIXES)


def read_archive(path: Path, wanted: Mapping[str, int]) -> Contents:
    """Return those entries whose path ends with one of `wanted`, each up to its number of bytes and one more.

    Raises:
        RefusedFile: the archive is damaged, too large, or names a place outside itself.
    """
    label = clean(path.name, 100)
    try:
        entries = _zip_entries if path.name.lower().endswith(".zip") else _tar_entries
        return _wanted_of(entries(path), wanted, label)
    except RefusedFile as refusal:
        raise RefusedFile(f"{label}: {refusal} Hand in the folder as a new archive.") from None
    except DAMAGED as error:
        raise RefusedFile(f"{label} cannot be read: it is damaged ({clean(str(error), 100)}). Make it again.") from None


def _wanted_of(entries: Iterator[Entry], wanted: Mapping[str, int], label: str) -> Contents:
    """Keep what is wanted; where several folders hold it, the outermost counts."""
    by_name = {path.rpartition("/")[2]: path for path in wanted}
    folders = {path.rpartition("/")[0] for path in wanted}
    found: dict[str, dict[str, bytes | RefusedFile]] = {}
    beside: dict[str, list[str]] = {}
    kept = 0
    for number, entry in enumerate(entries):
        if number >= MAX_ENTRIES:
            raise RefusedFile(f"It has more than {MAX_ENTRIES} entries.")
        name = _inside(entry.name)
        folder, _, last = name.rpartition("/")
        if home := next((each for each in folders if f"/{folder}".endswith(f"/{each}")), None):
            beside.setdefault(home, []).append(last)
        path = next((each for each in _candidates(last, by_name, wanted) if f"/{name}".endswith(f"/{each}")), None)
        if path is None or entry.is_folder:
            continue
        files = found.setdefault(name[: len(name) - len(path)], {})
        if path in files:
            raise RefusedFile(f"It has two entries `{clean(name, 200)}`.")
        content = files[path] = _content(entry, last, wanted[path])
        kept += len(content) if isinstance(content, bytes) else 0
        if kept > MAX_KEPT_BYTES:
            raise RefusedFile(f"Its programs have more than {MAX_KEPT_BYTES >> 20} MiB.")
    outermost = min(found, key=lambda prefix: (prefix.count("/"), prefix), default="")
    del label
    return Contents(found.get(outermost, {}), {folder: tuple(names) for folder, names in beside.items()})


def _candidates(last: str, by_name: Mapping[str, str], wanted: Mapping[str, int]) -> list[str]:
    """Return the wanted paths that may end a path with this last part; notes.jsonl lies in many folders."""
    if last not in by_name:
        return []
    return [path for path in wanted if path.rpartition("/")[2] == last]


def _content(entry: Entry, name: str, most_bytes: int) -> bytes | RefusedFile:
    if not entry.is_regular:
        return RefusedFile(f"{name} is a link or a device, not an ordinary file. Put the file itself in its place.")
    return entry.read(most_bytes + 1)


def _inside(name: str) -> str:
    """Return an entry's name, which must stay inside the archive's own folder."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in name:
        raise RefusedFile(f"Its entry `{clean(name, 200)}` leads out of it.")
    return "/".join(part for part in parts if part not in {"", "."})


def _zip_entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        _refuse_swollen_directory(file)
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                yield Entry(info.filename, _is_plain(info), info.is_dir(), _reader(archive, info))


def _reader(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[int], bytes]:
    def read(most_bytes: int) -> bytes:
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or info.flag_bits & 1:
            raise RefusedFile(f"Its entry `{clean(info.filename, 200)}` is encrypted or packed in an unusual way.")
        with archive.open(info) as file:
            return file.read(most_bytes)

    return read


def _is_plain(info: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(info.external_attr >> 16)
    return not info.is_dir() and kind in {0, stat.S_IFREG}


def _refuse_swollen_directory(file: BinaryIO) -> None:
    """Look at the announced size of a zip's directory before zipfile reads all of it into memory."""
    size = file.seek(0, 2)
    file.seek(max(0, size - (1 << 16) - 22))
    end = file.read()
    at = end.rfind(END_OF_ZIP)
    if at < 0 or len(end) < at + 16:
        raise zipfile.BadZipFile("it has no end")
    entries, directory = (
        int.from_bytes(end[at + 10 : at + 12], "little"),
        int.from_bytes(end[at + 12 : at + 16], "little"),
    )
    if entries > MAX_ENTRIES or directory > MAX_DIRECTORY_BYTES or END_OF_ZIP64 in end[max(0, at - 20) : at]:
        raise RefusedFile(f"It has more than {MAX_ENTRIES} entries.")


def _tar_entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream = _Metered(gzip.GzipFile(fileobj=file) if packed else file)
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]  # it only reads
            for member in archive:
                yield Entry(member.name, member.isreg(), member.isdir(), _member_reader(archive, member))
                archive.members = []  # or it keeps every header that it has read


def _member_reader(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[int], bytes]:
    def read(most_bytes: int) -> bytes:
        file = archive.extractfile(member)  # of a regular member: a view of the stream, no file on a disk
        return b"" if file is None else file.read(most_bytes)

    return read


class _Metered:
    """Read a stream up to a limit, so that a few bytes cannot unpack to many."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file, self._left = file, MAX_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise RefusedFile(f"It unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB.")
        return data

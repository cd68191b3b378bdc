"""Write the files of a students' copy, into a new folder or an archive, each time the same."""

from __future__ import annotations

import zipfile
from pathlib import Path

from grader.errors import UsageError
from grader.release.members import Files

EPOCH = (1980, 1, 1, 0, 0, 0)  # the oldest time that an archive can name
UNIX = 3
EXECUTABLE, PLAIN = 0o755, 0o644


def write_folder(files: Files, folder: Path) -> None:
    """Write all files into a folder that is empty or not there yet."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty. Name a new folder, or bring it up to date: --update {folder}")
        for name, data in sorted(files.items()):
            write_file(folder / name, data)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}.") from error


def write_file(path: Path, data: bytes) -> None:
    """Write one file, its folders too; a program may be executed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(_mode(data))


def write_zip(files: Files, path: Path) -> None:
    """Write all files into an archive, uncompressed, since compressors differ from version to version."""
    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in sorted(files.items()):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.create_system, entry.external_attr = UNIX, (0o100000 | _mode(data)) << 16
                archive.writestr(entry, data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error


def _mode(data: bytes) -> int:
    return EXECUTABLE if data.startswith(b"#!") else PLAIN

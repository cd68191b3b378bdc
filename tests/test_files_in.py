"""A student's file is taken as it is or refused with a sentence; nothing is followed, and nothing hangs."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from grader.errors import RefusedFile
from grader.files_in import HAS_OPENAT, MAX_BYTES, read_regular, refusal, shadowing, take

NAME = "mean_gradients.py"
WAYS = [True, False] if HAS_OPENAT else [False]


def refused(folder: Path, name: str = NAME) -> str:
    """Return the sentence with which the file is refused, the same one on every platform."""
    sentences = set()
    for openat in WAYS:
        with pytest.raises(RefusedFile) as caught:
            read_regular(folder, name, MAX_BYTES, openat=openat)
        sentences.add(str(caught.value))
    (sentence,) = sentences
    return sentence


def refused_text(folder: Path, source: bytes) -> str:
    """Return the sentence with which these bytes are refused."""
    (folder / NAME).write_bytes(source)
    with pytest.raises(RefusedFile) as caught:
        take(folder, NAME)
    return str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"x = 1\n",
        b"\xef\xbb\xbfx = 1\r\ny = 2\r\n",
        "# größer\n".encode(),
        b"#!/usr/bin/python\n# -*- coding: utf-8 -*-\n",
        b"# vim: set fileencoding=UTF8 :\n",
        b"x = 1\n\n# coding: latin-1 is too late here\n",
        b"x = '# coding: latin-1'\n",
    ],
)
def test_ordinary_text_comes_byte_for_byte(tmp_path: Path, source: bytes) -> None:
    """A byte order mark and CRLF are Windows' way, and Python reads both."""
    (tmp_path / NAME).write_bytes(source)
    assert take(tmp_path, NAME) == source
    assert all(read_regular(tmp_path, NAME, MAX_BYTES, openat=openat) == source for openat in WAYS)


def test_a_file_in_another_case_is_missing_and_named(tmp_path: Path) -> None:
    """A file system that ignores case must not hide what fails elsewhere."""
    (tmp_path / "Mean_Gradients.PY").touch()
    place = "/".join(tmp_path.parts[-3:])
    assert refused(tmp_path) == (
        f"The file {NAME} is missing from {place}; found Mean_Gradients.PY. Rename it to {NAME}."
    )


def test_a_file_of_a_similar_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "mean_gradient.py").touch()
    assert "found mean_gradient.py. Rename it" in refused(tmp_path)


def test_a_missing_file_says_how_to_get_it_back(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert refused(tmp_path).endswith(f"Get it back: nox -s reset -- {Path(NAME).stem}")
    assert refused(tmp_path / "nowhere").startswith(f"The folder of {NAME} is missing.")


@pytest.mark.skipif(os.name == "nt", reason="Windows has none of these in a folder")
@pytest.mark.parametrize("kind", ["fifo", "socket", "link", "dangling", "folder", "device"])
def test_what_is_not_an_ordinary_file_is_refused_at_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe would wait for a writer for ever, a link may lead to the reference."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    path = Path(NAME)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(NAME)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        (tmp_path / "other.py").touch()
        path.symlink_to("other.py" if kind == "link" else "nothing.py")
    words = {"fifo": "a named pipe", "socket": "a socket", "folder": "a folder"}.get(kind, "a link")
    assert refused(tmp_path) == f"{NAME} is {words}, not an ordinary file. Put the file itself in its place."


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_no_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    """Another student's folder behind a link is not this student's work."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / NAME).touch()
    (tmp_path / "mine").symlink_to("theirs")
    assert "is a link or no folder" in refused(tmp_path, f"mine/{NAME}")
    assert "is a link or no folder" in refused(tmp_path / "mine")
    assert read_regular(tmp_path, f"theirs/{NAME}", 10) == b""


@pytest.mark.parametrize("name", ["../x.py", "/etc/passwd", "a//b", "", ".", "a\\b.py", "x/../y"])
def test_a_name_never_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    assert "is not a file name inside" in refused(tmp_path, name)


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    assert (
        refused_text(tmp_path, b"#" * (MAX_BYTES + 1))
        == f"{NAME} is larger than 1024 KiB. Keep only the program in it."
    )
    (tmp_path / NAME).write_bytes(b"#" * MAX_BYTES)
    assert len(take(tmp_path, NAME)) == MAX_BYTES


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"x = 1\ny = '\xe9'\n", "is not UTF-8: byte 0xe9 at offset 11 (line 2). Save it as UTF-8."),
        (b"x = 1\n\x00", "holds a NUL byte at offset 6 (line 2), so it is no text. Save it as UTF-8."),
        ("x = 1".encode("utf-16"), "is saved as UTF-16. Save it as UTF-8."),
        (b"# coding: latin-1\nx = '\xe9'\n", "declares the encoding `latin-1`. Save it as UTF-8 and remove that line."),
        (b"\n# -*- coding: cp1252 -*-\n", "declares the encoding `cp1252`. Save it as UTF-8 and remove that line."),
    ],
)
def test_what_is_no_utf8_text_is_refused_with_the_place(tmp_path: Path, source: bytes, sentence: str) -> None:
    assert refused_text(tmp_path, source) == f"{NAME} {sentence}"


def test_an_unreadable_file_says_what_to_do() -> None:
    """As root nothing is unreadable, so the words are checked where they are made."""
    said = refusal(PermissionError(errno.EACCES, "Permission denied"), NAME)
    assert said == f"{NAME} cannot be read: permission denied. Allow it, for example with `chmod u+r {NAME}`."


def test_files_that_hide_a_module_are_named(tmp_path: Path) -> None:
    """Run directly, a program finds what lies beside it before Python's own modules."""
    for name in ("random.py", "torch.py", NAME, "mine.py", "README.md", "typing.txt"):
        (tmp_path / name).touch()
    (tmp_path / "numpy").mkdir()
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").touch()
    warnings = shadowing(tmp_path)
    assert [warning.split()[0] for warning in warnings] == ["json", "random.py", "torch.py"]
    assert "hides the module `random`" in warnings[1]

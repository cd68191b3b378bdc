"""Landlock: an allow-list of files, no TCP, no signals to processes outside.

Each `enter` makes a domain of its own, so the ranks of one run can neither signal nor inspect each other.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from grader.sandbox import kernel

assert sys.platform == "linux", "the other systems have none of this"

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
VERSION_QUERY, PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FIRST_ABI_RIGHTS = (1 << 13) - 1
RIGHTS_SINCE = ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
READING = EXECUTE | READ_FILE | READ_DIR
MEANT_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP_SINCE, SCOPES_SINCE = 4, 6
BIND_AND_CONNECT, SOCKETS_AND_SIGNALS = 3, 3


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what packing means here; Python 3.13 and later ask for it in words
    _fields_ = (("rights", ctypes.c_uint64), ("fd", ctypes.c_int32))


def abi() -> int:
    """Return the version that this kernel speaks; raise OSError if it has no Landlock or was booted without it."""
    return kernel.syscall(CREATE_RULESET, 0, 0, VERSION_QUERY)


def build(readable: Iterable[Path], writable: Iterable[Path], *, tcp: bool) -> int:
    """Return the file descriptor of a ruleset that allows only these files and everything beneath them."""
    version = abi()
    rights = FIRST_ABI_RIGHTS | sum(bit for since, bit in RIGHTS_SINCE if version >= since)
    network = BIND_AND_CONNECT if version >= TCP_SINCE and not tcp else 0
    attributes = _Ruleset(rights, network, SOCKETS_AND_SIGNALS if version >= SCOPES_SINCE else 0)
    size_bytes = 8 if version < TCP_SINCE else 16 if version < SCOPES_SINCE else 24
    ruleset = kernel.syscall(CREATE_RULESET, ctypes.byref(attributes), size_bytes, 0)
    for path in readable:
        _allow(ruleset, path, READING)
    for path in writable:
        _allow(ruleset, path, rights & ~EXECUTE)
    return ruleset


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):  # what cannot be reached anyway needs no rule
        return
    try:
        granted = rights if stat.S_ISDIR(os.fstat(fd).st_mode) else rights & MEANT_FOR_FILES
        kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(_PathBeneath(granted, fd)), 0)
    finally:
        os.close(fd)


def enter(ruleset: int) -> None:
    """Confine this process and all below it, for good; new privileges must be forbidden before."""
    kernel.syscall(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)

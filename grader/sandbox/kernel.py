"""Call the Linux kernel where Python has no function for it: prctl, capabilities, raw system calls.

Every function raises OSError with the kernel's reason.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
from contextlib import suppress

assert sys.platform == "linux", "the other systems have none of this"

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
PR_CAPBSET_DROP, PR_SET_SECUREBITS = 24, 28
LOCKED_SECUREBITS = 0x2F  # being root gives no capability, and none is kept over a change of user; all locked
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _word(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def syscall(number: int, *arguments: object) -> int:
    """Make a system call that the C library does not wrap."""
    return _checked(_libc.syscall(_word(number), *map(_word, arguments)))


def prctl(option: int, *arguments: object) -> int:
    """Change one attribute of this process."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    return _checked(_libc.prctl(option, *map(_word, padded)))


def die_with_parent(parent_pid: int) -> None:
    """Ask for SIGKILL when the thread that forked this process ends; end now if it already has."""
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent_pid:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every orphan among this process's descendants, so that none can escape."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def set_dumpable(dumpable: bool) -> None:
    """Open or close this process's memory, environment and files to other processes of the same user."""
    prctl(PR_SET_DUMPABLE, int(dumpable))


def forbid_new_privileges() -> None:
    """Make setuid programs run without their privilege, for this process and all below it."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Give up every capability for good; without them uid 0 is an ordinary owner of root's files."""
    try:
        for capability in range(64):
            prctl(PR_CAPBSET_DROP, capability)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EPERM}:  # past the last one; or there is none to drop
            raise
    with suppress(PermissionError):  # an ordinary user, whose programs gain nothing once new privileges are forbidden
        prctl(PR_SET_SECUREBITS, LOCKED_SECUREBITS)
    header = ctypes.create_string_buffer(struct.pack("<Ii", CAPABILITY_VERSION_3, 0), 8)
    _checked(_libc.capset(header, ctypes.create_string_buffer(24)))


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` names for new ones."""
    _checked(_libc.unshare(flags))


def mount(kind: str, target: str, *, source: str = "none", flags: int = 0, options: str = "") -> None:
    """Mount a file system of `kind`, or whatever `flags` asks for."""
    words = (source.encode(), target.encode(), kind.encode() or None)
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None))


def detach(target: str) -> None:
    """Take the mount at `target` out of the tree at once, busy or not."""
    _checked(_libc.umount2(target.encode(), 2))

"""Namespaces: a process tree, a network, mounts and shared memory of one run's own, shared by its ranks."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

from grader.sandbox import kernel, paths

assert sys.platform == "linux", "the other systems have none of this"

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
PRIVATE, BIND = 0x4000 | 0x40000, 0x1000  # 0x40000: and everything below
NO_SETUID, NO_DEVICES, NO_EXECUTION = 2, 4, 8
SET_FLAGS, UP_AND_RUNNING = 0x8914, 0x41
FILES_PER_TMPFS = 1 << 16


def enter() -> None:
    """Move this process into namespaces of its own; the next child that it forks is the first of the new process tree.

    The caller must be dumpable: while a process is not, its own /proc files belong to root.
    """
    uid, gid = os.getuid(), os.getgid()
    kernel.unshare(NEW_USER | NEW_MOUNTS | NEW_IPC | NEW_PIDS | NEW_NETWORK)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    kernel.mount("", "/", flags=PRIVATE)
    _raise_loopback()


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", UP_AND_RUNNING))


def mount_folders(run_dir: Path, scratch: Path, disk_bytes: int) -> list[Path]:
    """Bound scratch and shared memory, hide others' sockets; return what covers `run_dir`, last mounted first."""
    covering: list[Path] = []
    held = os.open(run_dir, os.O_PATH)
    for folder in filter(Path.is_dir, paths.hidden()):
        _mount_tmpfs(folder, 1 << 20)
        if run_dir.is_relative_to(folder):
            run_dir.mkdir(parents=True)
            kernel.mount("", str(run_dir), source=f"/proc/self/fd/{held}", flags=BIND)
            covering[:0] = [run_dir, folder]
    os.close(held)
    _mount_tmpfs(Path("/dev/shm"), disk_bytes)
    _mount_tmpfs(scratch, disk_bytes)
    return [scratch, *covering]


def _mount_tmpfs(target: Path, size_bytes: int) -> None:
    options = f"size={size_bytes},nr_inodes={FILES_PER_TMPFS},mode=0700"
    kernel.mount("tmpfs", str(target), source="tmpfs", flags=NO_SETUID | NO_DEVICES, options=options)


def mount_proc() -> None:
    """Show only the new process tree under /proc; for its first process."""
    kernel.mount("proc", "/proc", source="proc", flags=NO_SETUID | NO_DEVICES | NO_EXECUTION)

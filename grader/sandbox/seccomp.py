"""seccomp: refuse system calls that lead out of the process group, trace others, or widen the kernel's surface.

The C library's `socket` reaches what Landlock does not cover (UDP, netlink, docker's socket), so families are allowed
one by one.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
from dataclasses import dataclass

from grader.sandbox import kernel

assert sys.platform == "linux", "the other systems have none of this"

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_DGRAM = 2
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag that clone() takes
ALLOW, KILL, EPERM, EACCES, ENOSYS = 0x7FFF0000, 0x80000000, 0x50001, 0x5000D, 0x50026
LOAD, AND, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in struct seccomp_data

_X86_64 = """
    setsid=112 setpgid=109 unshare=272 setns=308 ptrace=101 process_vm_readv=310 process_vm_writev=311 kcmp=312
    pidfd_getfd=438 process_madvise=440 bpf=321 perf_event_open=298 userfaultfd=323 io_uring_setup=425
    add_key=248 request_key=249 keyctl=250 mount=165 umount2=166 pivot_root=155 chroot=161 move_mount=429
    open_tree=428 fsopen=430 fsconfig=431 fsmount=432 fspick=433 mount_setattr=442 open_by_handle_at=304
    name_to_handle_at=303 fanotify_init=300 quotactl=179 swapon=167 swapoff=168 reboot=169 acct=163 syslog=103
    kexec_load=246 kexec_file_load=320 init_module=175 finit_module=313 delete_module=176
    shmget=29 semget=64 msgget=68 mq_open=240
"""  # the last line: objects that would outlive every process of the run
_AARCH64 = """
    setsid=157 setpgid=154 unshare=97 setns=268 ptrace=117 process_vm_readv=270 process_vm_writev=271 kcmp=272
    pidfd_getfd=438 process_madvise=440 bpf=280 perf_event_open=241 userfaultfd=282 io_uring_setup=425
    add_key=217 request_key=218 keyctl=219 mount=40 umount2=39 pivot_root=41 chroot=51 move_mount=429
    open_tree=428 fsopen=430 fsconfig=431 fsmount=432 fspick=433 mount_setattr=442 open_by_handle_at=265
    name_to_handle_at=264 fanotify_init=262 quotactl=60 swapon=224 swapoff=225 reboot=142 acct=89 syslog=116
    kexec_load=104 kexec_file_load=294 init_module=105 finit_module=273 delete_module=106
    shmget=194 semget=190 msgget=186 mq_open=180
"""


@dataclass(frozen=True)
class Machine:
    """Hold the numbers of one processor architecture."""

    audit: int
    denied: tuple[int, ...]
    socket: int
    socketpair: int
    clone: int
    clone3: int = 435
    foreign: int | None = None  # numbers from here on belong to another calling convention


def _numbers(table: str) -> tuple[int, ...]:
    return tuple(int(entry.partition("=")[2]) for entry in table.split())


MACHINES = {
    "x86_64": Machine(0xC000003E, _numbers(_X86_64), socket=41, socketpair=53, clone=56, foreign=0x40000000),
    "aarch64": Machine(0xC00000B7, _numbers(_AARCH64), socket=198, socketpair=199, clone=220),
}


@dataclass(frozen=True)
class _Step:
    """One instruction; `hit` and `miss` name a label further down, or nothing for the next instruction."""

    code: int
    operand: int
    hit: str = ""
    miss: str = ""
    label: str = ""


@functools.cache
def build(families: tuple[int, ...]) -> bytes:
    """Return the filter program for this machine; raise OSError on one whose system calls are not known."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise OSError(f"the system call numbers of {platform.machine()} are not known")
    return _assemble(_dispatch(machine) + _branches(families))


def _dispatch(machine: Machine) -> list[_Step]:
    foreign = [] if machine.foreign is None else [_Step(AT_LEAST, machine.foreign, hit="refuse")]
    return [
        _Step(LOAD, ARCHITECTURE),
        _Step(EQUAL, machine.audit, miss="kill"),
        _Step(LOAD, NUMBER),
        *foreign,
        *(_Step(EQUAL, number, hit="refuse") for number in machine.denied),
        _Step(EQUAL, machine.clone3, hit="pretend"),
        _Step(EQUAL, machine.clone, hit="clone"),
        _Step(EQUAL, machine.socket, hit="socket"),
        _Step(EQUAL, machine.socketpair, hit="pair"),
        _Step(RETURN, ALLOW),
    ]


def _branches(families: tuple[int, ...]) -> list[_Step]:
    datagram_pairs = "allow" if AF_UNIX in families else "bar"  # one end could still name any socket file
    return [
        _Step(LOAD, FIRST_ARGUMENT, label="clone"),
        _Step(ANY_BIT, NEW_NAMESPACES, hit="refuse", miss="allow"),
        _Step(LOAD, SECOND_ARGUMENT, label="pair"),
        _Step(AND, 0xF),
        _Step(EQUAL, SOCK_DGRAM, hit=datagram_pairs, miss="allow"),
        _Step(LOAD, FIRST_ARGUMENT, label="socket"),
        *(_Step(EQUAL, family, hit="allow") for family in families),
        _Step(RETURN, EACCES, label="bar"),
        _Step(RETURN, ALLOW, label="allow"),
        _Step(RETURN, EPERM, label="refuse"),
        _Step(RETURN, ENOSYS, label="pretend"),  # the C library then uses clone(), whose flags can be read
        _Step(RETURN, KILL, label="kill"),
    ]


def _assemble(steps: list[_Step]) -> bytes:
    places = {step.label: place for place, step in enumerate(steps) if step.label}
    program = bytearray()
    for place, step in enumerate(steps):
        hit, miss = (places[name] - place - 1 if name else 0 for name in (step.hit, step.miss))
        program += struct.pack("<HBBI", step.code, hit, miss, step.operand)
    return bytes(program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def enter(program: bytes) -> None:
    """Filter the system calls of this process and all below it, for good; forbid new privileges before."""
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.byref(_Program(len(program) // 8, program)))

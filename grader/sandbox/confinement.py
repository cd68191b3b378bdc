"""Confine one process for good: limits, capabilities, Landlock, seccomp, in the one order that works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from grader.records import Level, Limits

if sys.platform == "linux":
    from grader.sandbox import kernel, landlock, paths, seccomp


class SandboxError(Exception):
    """Say which step of the sandbox the system refused, and why."""


@contextmanager
def step(name: str) -> Iterator[None]:
    """Turn the system's error into the words of a refusal."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise SandboxError(f"{name} ({reason})") from None


@dataclass(frozen=True)
class Policy:
    """Say what one rank may do."""

    level: Level
    limits: Limits
    exercise: Path  # read-only
    scratch: Path
    shared: bool = True  # with other ranks: shared memory, too
    network: bool = False
    processes: int | None = None


@dataclass(frozen=True)
class Prepared:
    """Hold what the ranks of a run apply to themselves, made once before they are forked."""

    policy: Policy
    ruleset: int = -1
    program: bytes = b""


def prepare(policy: Policy) -> Prepared:
    """Build the ruleset and the filter of a policy; raise SandboxError where the level cannot be had."""
    return Prepared(policy) if policy.level is Level.B0 else _prepare_sandbox(policy)


if sys.platform == "linux":
    INTERNET, LOCAL = (seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK), (seccomp.AF_UNIX,)

    def _prepare_sandbox(policy: Policy) -> Prepared:
        return Prepared(policy, _ruleset(policy), _program(policy))

    def _ruleset(policy: Policy) -> int:
        readable = [*paths.readable(), policy.exercise]
        writable = [paths.NULL, policy.scratch, *([paths.SHARED_MEMORY] if policy.shared else [])]
        with step("Landlock"):
            return landlock.build(readable, writable, tcp=policy.network)

    def _program(policy: Policy) -> bytes:
        with step("seccomp"):
            return seccomp.build(INTERNET * policy.network + LOCAL * policy.limits.unix_sockets)

    def rehearse() -> None:
        """Work out what no run changes, so that it is there in every process forked from this one."""
        paths.hidden()
        with suppress(OSError):  # of a processor whose system calls are not known, at level B0
            for families in ((), INTERNET, LOCAL, INTERNET + LOCAL):
                seccomp.build(families)

else:

    def _prepare_sandbox(policy: Policy) -> Prepared:
        raise SandboxError(f"level {policy.level.name} ({sys.platform} is not Linux)")


def apply(prepared: Prepared) -> None:
    """Confine this process; raise SandboxError, whereupon nothing of a submission may run in it."""
    if prepared.policy.level is Level.B0:
        with suppress(SandboxError):
            _limit(prepared.policy)
        return
    _limit(prepared.policy)
    if sys.platform == "linux":
        with step("giving up privileges"):
            kernel.drop_capabilities()
            kernel.forbid_new_privileges()
        with step("Landlock"):
            landlock.enter(prepared.ruleset)
        with step("seccomp"):
            seccomp.enter(prepared.program)


def _limit(policy: Policy) -> None:
    if sys.platform != "win32":
        from grader.sandbox import limits

        with step("resource limits"):
            limits.apply(policy.limits, policy.processes)

"""Try the parts of the sandbox in throwaway processes, because what is tried cannot be undone; Linux only."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from grader.sandbox import kernel, landlock, namespaces, paths, seccomp

assert sys.platform == "linux", "the other systems have none of this"

Error = tuple[int, str]  # number and words
NO_ANSWER: Error = (0, "it ended the process that tried it")
SOME_FOLDER = Path("/dev/shm")


def errors() -> dict[str, Error | None]:
    """Return for each part the error with which it was refused, or None."""
    return _in_child(
        {
            "namespaces": _enter_namespaces,
            "Landlock": _enter_landlock,
            "seccomp": lambda: seccomp.enter(seccomp.build(())),
        }
    )


def _enter_namespaces() -> None:
    kernel.set_dumpable(True)
    namespaces.enter()
    namespaces.mount_folders(SOME_FOLDER, SOME_FOLDER, 1 << 20)
    error = _in_child({"/proc": namespaces.mount_proc})["/proc"]
    if error is not None:
        raise OSError(error[0], f"no private /proc: {error[1]}")


def _enter_landlock() -> None:
    kernel.forbid_new_privileges()
    landlock.enter(landlock.build(paths.readable(), [paths.NULL, paths.SHARED_MEMORY], tcp=False))


def _in_child(steps: dict[str, Callable[[], None]]) -> dict[str, Error | None]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of numpy's threads: the child takes none of their locks
        child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps({name: _attempt(step) for name, step in steps.items()}).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found = json.loads(answer) if answer else dict.fromkeys(steps, NO_ANSWER)
    return {name: None if error is None else (error[0], error[1]) for name, error in found.items()}


def _attempt(step: Callable[[], None]) -> Error | None:
    try:
        step()
    except OSError as error:
        return error.errno or 0, error.strerror or str(error)
    return None

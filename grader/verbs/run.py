"""Run an exercise's own example as a student would: with python, or with torchrun where it needs ranks from outside."""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from grader import catalog
from grader.records import Exercise

RANKS = 2
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Run the file in its folder, its output untouched, and return its exit code."""
    (exercise,) = catalog.select(catalog.load_course(root), [arguments.slug])
    with subprocess.Popen(command(exercise), cwd=exercise.student_dir, env=environment()) as process:
        while True:
            try:
                code = process.wait()
                return code if code >= 0 else 128 - code  # as a shell says it: ended by a signal
            except KeyboardInterrupt:  # reached it too; it ends in its own way
                continue


def command(exercise: Exercise) -> list[str]:
    """Return what runs the example, in the exercise's folder."""
    ranks = _torchrun() if needs_ranks(exercise.starter_path) else []
    return [sys.executable, "-B", *ranks, exercise.starter_path.name]


def needs_ranks(path: Path) -> bool:
    """Say whether the main block joins a process group, itself or in functions that it calls, and starts no ranks."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return False  # Python itself says it best
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    called, new = set[str](), _called(node for node in tree.body if _is_main_block(node))
    while new:
        called |= new
        new = _called(functions[name] for name in new if name in functions) - called
    return "init_process_group" in called and "torchrun" not in called


def _called(nodes: Iterable[ast.AST]) -> set[str]:
    """Return every name that these nodes call or hand on, the last part of a dotted one."""
    inner = [each for node in nodes for each in ast.walk(node)]
    names = {each.id for each in inner if isinstance(each, ast.Name)}
    return names | {each.attr for each in inner if isinstance(each, ast.Attribute)}


def _is_main_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _torchrun() -> list[str]:
    options = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(RANKS)]
    return ["-m", "torch.distributed.run", *options]


def environment() -> dict[str, str]:
    """One thread a rank, and the loopback interface: a laptop's own host name often leads nowhere."""
    ours = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    if not sys.stdout.isatty():  # a terminal gets whole lines anyway, and without a buffer those of two ranks would mix
        ours["PYTHONUNBUFFERED"] = "1"
    if sys.platform in LOOPBACK:
        ours["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    return {**ours, **os.environ}

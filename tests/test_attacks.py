"""No submission is believed without the right answer, and none touches what is not its own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from attacks import ATTACKS, SPYING
from conftest import TORCH
from grader import runner
from grader.launch import Launcher
from grader.records import Exercise, ExerciseResult, Level, Limits, Outcome, Submission

CANARY = "CANARY-7f3a91"
CHECKS = f'''
from grader.judging import Group, assert_close, check, tensor
import numpy as np

@check(hints=("Add.",))
def check_f(student, rng):
    """The sum. {CANARY}"""
    if not student.source.count(b"def f("):
        return
    x = rng.normal(size=4)
    assert_close(student.call("f", x).value, x.sum(), "f(x)")

@check(hints=("Add over the ranks.",))
def check_g(student, rng):
    """The mean."""
    x = rng.normal(size=(2, 3))
    for result in student.simulated("g", [(tensor(row), Group()) for row in x]):
        assert_close(result.value, x.mean(axis=0), "g(x)")
'''


@dataclass
class Scene:
    """What an attack may try to reach, and what became of it."""

    folder: Path
    victim: Path
    listener: socket.socket
    launcher: Launcher

    def run(self, source: str) -> ExerciseResult:
        """Run a submission, its places filled in."""
        port = str(self.listener.getsockname()[1])
        places = {"{victim}": str(self.victim), "{folder}": str(self.folder), "{pid}": str(os.getpid()), "{port}": port}
        for place, value in places.items():
            source = source.replace(place, value)
        limits = Limits(timeout_s=4.0, memory_bytes=2 << 30, disk_bytes=16 << 20)
        exercise = Exercise("sample", 1, "S", 10, 1, 1, self.folder / "student", self.folder, limits, TORCH)
        exercise.starter_path.write_text(source, encoding="utf-8")
        return runner.run(Submission(exercise, exercise.starter_path), self.launcher, 1)

    def touched(self) -> list[str]:
        """Return what the attack reached."""
        found = [] if self.victim.read_text() == "untouched" else ["the victim's file"]
        found += [] if (self.folder / "checks.py").exists() else ["the checks"]
        self.listener.setblocking(False)
        try:
            self.listener.accept()
            found.append("the listener")
        except BlockingIOError:
            pass
        return found


@pytest.fixture
def scene(tmp_path: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """An exercise, a file, a listener and a secret."""
    (tmp_path / "student").mkdir()
    (tmp_path / "checks.py").write_text(CHECKS, encoding="utf-8")
    victim = tmp_path / "results.json"
    victim.write_text("untouched")
    monkeypatch.setenv("RANKLINGS_TOKEN", CANARY)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Scene(tmp_path, victim, listener, launcher)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_passes_or_touches_anything(scene: Scene, name: str) -> None:
    """Whatever it does: a failure, nothing outside changes, no secret comes back, and the run goes on."""
    result = scene.run(ATTACKS[name])
    assert result.outcome is Outcome.FAILED
    if scene.launcher.level is Level.B0 and name not in SPYING:
        return  # without an operating system's boundary only the verdict is safe
    time.sleep(0.3 if "daemon" in name else 0)
    assert not scene.touched()
    words = str([(check.message, check.output) for check in result.checks])
    assert CANARY not in words


def test_a_right_submission_passes_on_the_same_scene(scene: Scene) -> None:
    """Or the attacks would fail for another reason."""
    right = "import torch.distributed as dist\ndef f(x):\n    return float(x.sum())\ndef g(x, group):\n"
    result = scene.run(right + "    dist.all_reduce(x, group=group)\n    return x / dist.get_world_size(group)\n")
    assert result.outcome is Outcome.PASSED

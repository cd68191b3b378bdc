"""Hostile submissions at every level and as both kinds of user, broken frames, sudden deaths, and the price."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bench.measure import ROOT, Row, copy_of_course, median_s
from bench.ranks import PRELOAD, run_folders, student
from grader.launch import open_launcher
from grader.launch.programs import BOOT

CORPUS = ("tests/test_attacks.py", "tests/test_bad_submissions.py", "tests/test_hangs.py")
LEVELS = ("B0", "B1", "B2")
NOBODY = "65534"
FRAMES, KILLS, SURVIVING_S = 1_000_000, 50, 2.0


def corpus(_torch_s: float) -> list[Row]:
    """Run every attack and every bad submission at each level, as root and as an ordinary user."""
    users = {"root": [], "an ordinary user": _as_nobody()} if os.name == "posix" and os.getuid() == 0 else {"me": []}
    return [_corpus(level, user, before) for level in LEVELS for user, before in users.items()]


def _as_nobody() -> list[str]:
    return ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]


def _corpus(level: str, user: str, before: list[str]) -> Row:
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        Path(folder).chmod(0o777)
        environment = {**os.environ, "RANKLINGS_ISOLATION": level, "HOME": folder, "TMPDIR": folder}
        command = [*before, sys.executable, "-B", "-m", "pytest", "-q", "--basetemp", f"{folder}/pytest", *CORPUS]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    last = (done.stdout.strip().splitlines() or [done.stderr[-200:]])[-1]
    return Row(
        f"attacks and bad submissions at {level} as {user}", last.strip("= "), "none fails", done.returncode == 0
    )


def fuzz(_torch_s: float) -> list[Row]:
    """Decode a million mutated frames."""
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_wire.py", "-k", "mutated", "--timeout", "3600"]
    environment = {**os.environ, "RANKLINGS_FUZZ_FRAMES": str(FRAMES)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = "only the one error" if done.returncode == 0 else done.stdout[-300:]
    return [Row(f"{FRAMES:,} mutated frames decoded", found, "only the one error", done.returncode == 0)]


def kills(_torch_s: float) -> list[Row]:
    """End the trusted process at random moments, and look two seconds later for what is left of it."""
    dice, survivors, broken, folders = random.Random(1), 0, 0, run_folders()
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_course(Path(folder, "checkout"))
        for _ in range(KILLS):
            report = Path(folder, "report.json")
            report.unlink(missing_ok=True)
            command = [sys.executable, "-m", "grader", "check", "--all", "--json", str(report)]
            with subprocess.Popen(command, cwd=copy, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(dice.uniform(0.0, 8.0))
                process.send_signal(signal.SIGKILL)
            time.sleep(SURVIVING_S)
            survivors += len(_programs_of(copy))
            broken += not _is_whole(report)
    left = len(run_folders() - folders)
    found = f"{survivors} survivors, {broken} half-written reports, {left} folders for the next run to take away"
    return [Row(f"check killed at {KILLS} random moments, 2 s later", found, "0, 0", not (survivors or broken))]


def _programs_of(copy: Path) -> list[int]:
    """Return the processes of this checkout's programs."""
    wanted, found = str(copy / BOOT.relative_to(ROOT)).encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in folder.joinpath("cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # gone meanwhile
            continue
    return found


def _is_whole(report: Path) -> bool:
    try:
        return not report.exists() or json.loads(report.read_text(encoding="utf-8"))["schema"] == "ranklings/report/1"
    except ValueError:
        return False


def price(_torch_s: float) -> list[Row]:
    """Compare one call in a rank without a sandbox with one in the best that there is."""
    found = {}
    for level in ("B0", "B1", "B2"):
        os.environ["RANKLINGS_ISOLATION"] = level
        try:
            with closing(open_launcher(preload=PRELOAD)) as opened:
                found[level] = _call_s(opened)
        finally:
            del os.environ["RANKLINGS_ISOLATION"]
    costs = {level: found[level] - found["B0"] for level in ("B1", "B2")}
    words = ", ".join(
        f"{level} {cost * 1e3:.1f} ms ({found[level] / found['B0']:.2f} times)" for level, cost in costs.items()
    )
    return [Row("sandbox of a call, beyond B0", words, "10 ms", max(costs.values()) <= 0.010)]


def _call_s(opened: object) -> float:
    def one_call() -> None:
        made = student(b"def f(x):\n    return x\n", opened)  # type: ignore[arg-type]
        made.call("f", 1)
        made.close()

    one_call()
    return median_s(one_call, 31)

"""A class of 120 with every exercise there is: right rows, throughput, memory, and twenty-five kills."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import ROOT, Row, descendants, memory_bytes
from grader import catalog
from grader.audit.folders import repairs
from grader.records import Exercise

STUDENTS, ODD, KILLS, SAMPLE = 120, 24, 25, 12
SEED = "5"
HOSTILE = """
import glob, os, signal
for path in glob.glob("/proc/[0-9]*"):
    try:
        if int(path[6:]) != os.getpid(): os.kill(int(path[6:]), signal.SIGKILL)
    except (OSError, ValueError): pass
for path in ("{out}/results.sqlite", "{out}/grades.csv"):
    try: open(path, "w").write("forged")
    except OSError: pass
for _ in range(100):  # not without end: for root the limit on processes does not hold
    try:
        if os.fork() == 0: __import__("time").sleep(60)
    except OSError: break
os._exit(0)
"""
ODDITIES = {
    "hostile": HOSTILE,
    "hangs": "while True: pass\n",  # on one line, so that it is always seen on the same
    "empty": "",
    "huge": "x = 1\n" * 300_000,
    "dies": "import os\nos._exit(0)\n",
    "renamed": None,
}
# One process of pytest for one hand-in and one exercise, its ranks spawned: how graders commonly do it.
ONE_PROCESS = """
import sys
from pathlib import Path
from grader import catalog, runner
from grader.launch import open_launcher
from grader.records import Submission
root, slug, path = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
[exercise] = catalog.select(catalog.load_course(root), [slug])
if __name__ == "__main__":
    launcher = open_launcher(method="spawn", preload=exercise.preload)
    print(runner.run(Submission(exercise, path), launcher, 5, stop_at_first=False).outcome.value)
    launcher.close()
"""

Expected = dict[tuple[str, str], bool]


def a_class(_torch_s: float, students: int = STUDENTS, kills: int = KILLS, slugs: Sequence[str] = ()) -> list[Row]:
    """Grade the class once in peace and once with kills, and compare with a process for each hand-in and exercise."""
    course = catalog.load_course(ROOT)
    chosen = catalog.select(course, slugs) if slugs else course
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "class")
        expected = write_class(folder, chosen, students)
        only = ["--only", *(exercise.slug for exercise in chosen)]
        command = [sys.executable, "-m", "grader", "grade", str(folder), "--seed", SEED, "--no-beliefs", *only]
        begun = time.monotonic()
        with watched_memory() as (pids, samples), started(command) as run:
            pids.append(run.pid)
            said = run.communicate()[1]
        peace_s, grades = time.monotonic() - begun, timeless(Path(f"{folder}-grades"))
        wrong = sum(passed != expected[key] for key, passed in outcomes(grades).items())
        missing = len(expected) - len(outcomes(grades))
        per_s = len(expected) / peace_s
        baseline_per_s = one_process_each(chosen, Path(base))
        killed = with_kills([*command, "--out", f"{base}/killed"], kills, peace_s)
        same = killed and timeless(Path(base, "killed")) == grades
        growth = growth_of(samples)
    words = f"{len(expected)} results of {students} hand-ins"
    if wrong or missing:
        print(said[-2000:], file=sys.stderr)
    return [
        Row(f"{words}: wrong, missing", f"{wrong}, {missing}", "0, 0", not wrong and not missing),
        Row("the same, results a second", f"{per_s:.2f} in {peace_s:.0f} s"),
        Row(
            "against one process of pytest each, ranks spawned",
            f"{per_s / baseline_per_s:.0f} times",
            "30 times",
            per_s >= 30 * baseline_per_s,
        ),
        Row("memory of the last quarter against the second", f"{growth:+.0%}", "+10%", growth <= 0.1),
        Row(f"killed {kills} times and resumed", "the same results" if same else "OTHER RESULTS", "the same", same),
    ]


def write_class(folder: Path, course: Sequence[Exercise], students: int) -> Expected:
    """Write hand-ins, each program unlike every other, and return which shall pass."""
    draw, expected = random.Random(5), {}
    for number in range(students):
        odd = list(ODDITIES)[number % len(ODDITIES)] if number < min(ODD, students // 2) else ""
        student = f"student{number:03}"
        strange = set(draw.sample([exercise.slug for exercise in course], min(3, len(course)))) if odd else set()
        for exercise in course:
            path = folder / student / exercise.starter_path.relative_to(ROOT)
            path.parent.mkdir(parents=True)
            right = draw.random() < 0.6
            files = [exercise.reference_path, *repairs(exercise, "right")] if right else repairs(exercise, "wrong")
            source: str | None = f"{draw.choice(files).read_text(encoding='utf-8')}\n# {student}\n"
            if exercise.slug in strange:
                right, source = False, ODDITIES[odd]
                source = source and source.replace("{out}", f"{folder}-grades")
            if source is None:
                path.with_name(f"my_{path.name}").write_text("", encoding="utf-8")
            else:
                path.write_text(source, encoding="utf-8")
            expected[student, exercise.slug] = right
    return expected


def one_process_each(course: Sequence[Exercise], base: Path) -> float:
    """Return how many results a second come of a process each, as many at a time as there are cores."""
    script = base / "one.py"
    script.write_text(ONE_PROCESS, encoding="utf-8")
    chosen = [course[place * len(course) // SAMPLE] for place in range(SAMPLE)]

    def one(exercise: Exercise) -> None:
        words = [sys.executable, str(script), str(ROOT), exercise.slug, str(exercise.reference_path)]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
        if done.stdout.strip() != "passed":
            raise RuntimeError(f"{exercise.slug}: {done.stdout}{done.stderr[-2000:]}")

    begun = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(one, chosen))
    return len(chosen) / (time.monotonic() - begun)


def with_kills(command: list[str], kills: int, peace_s: float) -> bool:
    """Run the command, killed at random moments, until it has ended by itself; return whether it did."""
    draw = random.Random(7)
    for _ in range(kills):
        with started(command) as run:
            try:
                run.communicate(timeout=draw.uniform(1.0, max(2.0, 1.5 * peace_s / kills)))
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
    with started(command) as run:
        run.communicate()
    return run.returncode == 0


def started(command: list[str]) -> subprocess.Popen[str]:
    """Start a command, its words kept."""
    return subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def environment() -> dict[str, str]:
    """Return an environment in which the grader is found from anywhere."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}


def timeless(out: Path) -> Any:
    """Return grades.json without times, and without where a hang was seen when its time was up."""

    def without(entry: dict[str, Any]) -> dict[str, Any]:
        gone = {"seconds", "graded_at"} | ({"message", "line"} if entry.get("kind") == "timeout" else set[str]())
        return {key: value for key, value in entry.items() if key not in gone}

    return json.loads((out / "grades.json").read_text(encoding="utf-8"), object_hook=without)


def outcomes(grades: Any) -> Expected:
    """Return what passed."""
    return {
        (student["student"], exercise["slug"]): exercise["outcome"] == "passed"
        for student in grades["students"]
        for exercise in student["exercises"]
    }


@contextmanager
def watched_memory() -> Iterator[tuple[list[int], list[int]]]:
    """Sample, twice a second, the memory of the process that is put into the first list, and of all below it."""
    pids: list[int] = []
    samples: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            if pids:
                samples.append(memory_bytes({pids[0], *descendants(pids[0])}))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield pids, samples
    finally:
        over.set()
        watcher.join()


def growth_of(samples: Sequence[int]) -> float:
    """Return by what share the middle of the last quarter lies above that of the second."""
    quarter = max(1, len(samples) // 4)
    second, last = sorted(samples[quarter : 2 * quarter]), sorted(samples[-quarter:])
    return last[len(last) // 2] / max(1, second[len(second) // 2]) - 1 if second and last else 0.0

"""Grade the bytes of one hand-in against every check of its exercise, and carry the result as JSON."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grader import catalog, runner
from grader.errors import BrokenExercise, GraderError
from grader.launch import Launcher
from grader.patience import with_patience
from grader.records import CheckResult, Exercise, ExerciseResult, Level, Outcome, Promise, Submission
from grader.safe_text import clean, tail

MOST_TIMEOUTS = 2  # a hand-in that hangs costs its class two limits, not one for each check
FORMAT = 1  # of the JSON, and of what grading means: another number, and everything is graded again
MESSAGE_LIMIT, OUTPUT_LIMIT = 2000, 500

Json = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """Hold how a hand-in ended in the released checks and in those that are held out, and how it was confined."""

    result: ExerciseResult
    held_out: tuple[CheckResult, ...] = ()
    level: Level = Level.B0

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        """Return all checks, the released ones first."""
        return (*self.result.checks, *self.held_out)


def bundle(exercise: Exercise, source: bytes, used: Mapping[str, bytes]) -> bytes:
    """Return a program with those that it uses in one piece; alone it stays as it is."""
    if not exercise.uses:
        return source
    texts = {slug: base64.b64encode(used[slug]).decode() for slug in exercise.uses}
    return json.dumps({**texts, exercise.slug: base64.b64encode(source).decode()}).encode()


def unbundle(exercise: Exercise, bundled: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the program, and by slug those that it uses."""
    if not exercise.uses:
        return bundled, {}
    sources = {slug: base64.b64decode(text) for slug, text in json.loads(bundled).items()}
    return sources.pop(exercise.slug), sources


def judge(exercise: Exercise, bundled: bytes, launcher: Launcher, class_seed: int) -> Verdict:
    """Run every check against a hand-in's program; what is wrong with the exercise or the grader is its ERROR."""

    def look(exercise: Exercise) -> Verdict:
        return _look(exercise, bundled, launcher, class_seed)

    return with_patience(look, exercise, lambda found: any(check.kind == "timeout" for check in found.checks))


def _look(exercise: Exercise, bundled: bytes, launcher: Launcher, class_seed: int) -> Verdict:
    seed = catalog.exercise_seed(exercise.slug, class_seed)
    submission = Submission(exercise, exercise.starter_path)
    held_out: tuple[CheckResult, ...] = ()
    source, used = unbundle(exercise, bundled)
    run = functools.partial(
        runner.run_source,
        submission,
        source,
        launcher,
        seed,
        used=used,
        stop_at_first=False,
        most_timeouts=MOST_TIMEOUTS,
    )
    try:
        promises = catalog.promises(exercise)
        checks = run(promises)
        hangs = any(check.outcome is Outcome.NOT_RUN for check in checks)
        held_out = _held_out(exercise, run, hangs=hangs)
    except (BrokenExercise, GraderError) as error:
        return failed(exercise, str(error), Outcome.ERROR, launcher.level)
    outcome = runner.outcome_of(checks)
    if Outcome.ERROR in {check.outcome for check in held_out}:
        outcome = Outcome.ERROR
    seconds = round(sum(check.seconds for check in (*checks, *held_out)), 3)
    return Verdict(ExerciseResult(submission, outcome, checks, seconds=seconds), held_out, launcher.level)


def failed(exercise: Exercise, message: str, outcome: Outcome = Outcome.FAILED, level: Level = Level.B2) -> Verdict:
    """Return the verdict on what could not be run at all; nothing ran, so nothing was less confined than asked for."""
    return Verdict(ExerciseResult(Submission(exercise, exercise.starter_path), outcome, message=message), (), level)


def digest(exercise: Exercise) -> str:
    """Return a hash of everything that decides a verdict beside the hand-in: checks, harness, limits."""
    total = hashlib.sha256()
    files = (
        exercise.checks_path,
        exercise.held_out_path,
        exercise.harness_path,
        exercise.student_dir / "exercise.toml",
    )
    for file in files:
        content = file.read_bytes() if file.exists() else b""
        total.update(f"{file.name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def to_json(verdict: Verdict) -> Json:
    """Return a verdict as what JSON can hold; texts of a submission are made harmless and bounded."""
    result = verdict.result
    return {
        "outcome": result.outcome.value,
        "message": clean(result.message, MESSAGE_LIMIT),
        "seconds": result.seconds,
        "level": verdict.level.name,
        "checks": list(map(_check_to_json, result.checks)),
        "held_out": list(map(_check_to_json, verdict.held_out)),
    }


def from_json(exercise: Exercise, data: Json, released: dict[str, Promise], held_out: dict[str, Promise]) -> Verdict:
    """Return the verdict again, with the promises of the checks by name."""
    result = ExerciseResult(
        Submission(exercise, exercise.starter_path),
        Outcome(data["outcome"]),
        tuple(_check_from_json(released[check["name"]], check) for check in data["checks"]),
        data["message"],
        seconds=data["seconds"],
    )
    held = tuple(_check_from_json(held_out[check["name"]], check) for check in data["held_out"])
    return Verdict(result, held, Level[data["level"]])


def _held_out(
    exercise: Exercise, run: Callable[..., tuple[CheckResult, ...]], *, hangs: bool
) -> tuple[CheckResult, ...]:
    file = exercise.held_out_path
    if not file.exists():
        return ()
    promises = catalog.promises(exercise, file)
    if hangs:
        return tuple(CheckResult(promise, Outcome.NOT_RUN) for promise in promises)
    return run(promises, checks=file)


def _check_to_json(check: CheckResult) -> Json:
    return {
        "name": check.promise.name,
        "outcome": check.outcome.value,
        "message": clean(check.message, MESSAGE_LIMIT),
        "output": tail(check.output, OUTPUT_LIMIT),
        "seconds": check.seconds,
        "line": check.line,
        "kind": check.kind,
    }


def _check_from_json(promise: Promise, data: Json) -> CheckResult:
    outcome, message, output = Outcome(data["outcome"]), data["message"], data["output"]
    return CheckResult(promise, outcome, message, output, data["seconds"], data["line"], data["kind"])

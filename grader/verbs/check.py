"""Grade a student's repairs and say what is still wrong."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from grader import catalog, notes
from grader.errors import BrokenExercise
from grader.hand_in import handed_in
from grader.records import Exercise, ExerciseResult, Level, Outcome, Report, Request, Submission
from grader.report import as_json, text
from grader.report.gradescope import VISIBILITIES
from grader.report.terminal import Screen
from grader.verbs.grading import DEFAULT_SEED, open_grader

INTERRUPTED = 130
NOT_REACHED = "Not checked: an exercise before it is to be repaired first, or the time was up."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slugs", nargs="*", metavar="SLUG", help="check these exercises only")
    parser.add_argument("--all", action="store_true", help="go on after an exercise that is not repaired")
    parser.add_argument("--json", type=Path, metavar="F", help="write the report to F as JSON")
    parser.add_argument("--junit", type=Path, metavar="F", help="write the report to F as JUnit XML")
    parser.add_argument(
        "--github", action="store_true", help="write annotations, points and a summary for GitHub Actions"
    )
    parser.add_argument("--gradescope", type=Path, metavar="F", help="write the report to F as Gradescope reads it")
    parser.add_argument("--visibility", choices=VISIBILITIES, default="visible", help="when Gradescope shows it")
    parser.add_argument("--classroom50", type=Path, metavar="F", help="write the report to F as Classroom 50 reads it")
    parser.add_argument("--submission", type=Path, metavar="DIR", help="check the files in DIR, and leave no notes")
    parser.add_argument("--seed", type=int, metavar="N", help="draw the inputs of the checks from this seed")
    parser.add_argument(
        "--trace", type=Path, metavar="F", help="write to F what the ranks said to each other, for chrome://tracing"
    )
    parser.add_argument("--jobs", type=_positive, default=1, metavar="N", help="grade N exercises at a time")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Grade, show each result as it comes, and return 0 if all that was asked for passed."""
    course = catalog.load_course(root)
    if not course:
        raise BrokenExercise("exercises:1: there is no exercise here. Get a complete copy of the course.")
    if arguments.submission:
        course = handed_in(course, arguments.submission)
    request = Request(
        tuple(arguments.slugs), arguments.all, arguments.seed, arguments.jobs, trace=arguments.trace is not None
    )
    chosen = catalog.select(course, request.slugs) if request.slugs else course
    screen = Screen(sys.stdout, sys.stderr)
    files = _Files(arguments, chosen)
    with _harmless_to_github(screen, arguments.github):
        tally = _Tally(course, keeps_notes=not arguments.submission)
        report, interrupted = _grade_all(request, chosen, tally, screen, files)
        screen.show(_last_lines(report, interrupted, screen.look))
    if arguments.github:
        from grader.report import github

        report = files.with_the_rest(report)
        screen.show([((command, ""),) for command in github.commands(report, root)])
        github.write_files(report)
    return INTERRUPTED if interrupted else exit_code(report.results)


def exit_code(results: Sequence[ExerciseResult]) -> int:
    """Return 0 when all passed, 3 when the grader or an exercise is at fault, else 1."""
    outcomes = {result.outcome for result in results}
    return 3 if Outcome.ERROR in outcomes else int(outcomes != {Outcome.PASSED})


def _grade_all(
    request: Request, chosen: Sequence[Exercise], tally: _Tally, screen: Screen, files: _Files
) -> tuple[Report, bool]:
    """Return the report of what was graded, and whether somebody interrupted it."""
    seed = DEFAULT_SEED if request.seed is None else request.seed
    report = Report(seed, Level.B0, course=tuple(tally.course))
    files.begin(report)
    try:
        with open_grader(request, chosen, tally.course, screen.tell) as grade:
            for exercise in chosen:
                graded = grade(exercise)
                report = replace(
                    report,
                    isolation=graded.isolation,
                    isolation_words=graded.isolation_words,
                    results=(*report.results, graded.result),
                )
                files.write(report)
                tally.keep(graded.result, seed)
                next_slug = tally.next_slug() if request.slugs and exercise is chosen[-1] else ""
                screen.show(_block(graded.result, tally, screen.look, next_slug))
                if graded.result.outcome is not Outcome.PASSED and not (request.slugs or request.all):
                    break
    except KeyboardInterrupt:
        return report, True
    finally:
        screen.tell("")
    return report, False


class _Files:
    """Write the report where it was asked for, again after every exercise, so that it is always complete.

    Who records points is told of every exercise that was asked for, so that the total does not depend on the outcome.
    """

    def __init__(self, arguments: argparse.Namespace, chosen: Sequence[Exercise]) -> None:
        self.arguments, self.chosen = arguments, chosen

    def begin(self, report: Report) -> None:
        self.write(report)
        if self.arguments.github:
            from grader.report import github

            github.write_result(self.with_the_rest(report))

    def write(self, report: Report) -> None:
        asked = self.arguments
        if asked.json:
            as_json.write(report, asked.json)
        if asked.junit:
            from grader.report import junit

            junit.write(report, asked.junit)
        if asked.trace:
            from grader.report import trace

            trace.write(report, asked.trace)
        if asked.gradescope:
            from grader.report import gradescope

            gradescope.write(self.with_the_rest(report), asked.gradescope, asked.visibility)
        if asked.classroom50:
            from grader.report import classroom50

            classroom50.write(self.with_the_rest(report), asked.classroom50, os.environ)

    def with_the_rest(self, report: Report) -> Report:
        """Return the report with the exercises, too, that checking did not come to."""
        rest = self.chosen[len(report.results) :]
        not_run = (Submission(exercise, exercise.starter_path) for exercise in rest)
        results = (ExerciseResult(each, Outcome.NOT_RUN, message=NOT_REACHED) for each in not_run)
        return replace(report, results=(*report.results, *results))


class _Tally:
    """Know which exercises are repaired: from this run, else from the notes; leave a note of each verdict."""

    def __init__(self, course: Sequence[Exercise], *, keeps_notes: bool = True) -> None:
        self.course, self.keeps_notes = course, keeps_notes
        self.repaired: dict[str, bool] = {}
        self.complaints: set[str] = set()

    def keep(self, result: ExerciseResult, seed: int) -> None:
        exercise, first = result.submission.exercise, result.first_failure
        self.repaired[exercise.slug] = result.outcome is Outcome.PASSED
        if not self.keeps_notes or result.outcome not in {Outcome.PASSED, Outcome.FAILED}:
            return
        complaint = notes.append(
            exercise.student_dir,
            "run",
            outcome=result.outcome.value,
            first_failure=first.promise.name if first else "",
            seed=seed,
            passed=sum(check.outcome is Outcome.PASSED for check in result.checks),
        )
        if complaint and not self.complaints:
            print(complaint, file=sys.stderr)
            self.complaints.add(complaint)

    def is_repaired(self, exercise: Exercise) -> bool:
        if exercise.slug not in self.repaired and self.keeps_notes:
            self.repaired[exercise.slug] = notes.is_repaired(exercise)
        return self.repaired.get(exercise.slug, False)

    def standing(self, chapter: int) -> text.Standing:
        exercises = [exercise for exercise in self.course if exercise.chapter == chapter]
        return text.Standing(sum(map(self.is_repaired, exercises)), len(exercises))

    def next_slug(self) -> str:
        return next((exercise.slug for exercise in self.course if not self.is_repaired(exercise)), "")


def _block(result: ExerciseResult, tally: _Tally, look: text.Look, next_slug: str) -> list[text.Line]:
    block = text.block(result, tally.standing(result.submission.exercise.chapter), look, next_slug)
    return block if len(block) == 1 else [*block, ()]


def _last_lines(report: Report, interrupted: bool, look: text.Look) -> list[text.Line]:
    lines: list[text.Line] = []
    if interrupted:
        lines = [(("  Interrupted: what was graded so far is above and in the report.", "yellow"),)]
    elif len(report.results) == len(report.course) and exit_code(report.results) == 0:
        lines = [((f"  All {len(report.course)} exercises are repaired.", "bold green"),)]
    return [*lines, *text.footer(report, look)]


@contextmanager
def _harmless_to_github(screen: Screen, wanted: bool) -> Iterator[None]:
    """Let the runner obey nothing that is printed meanwhile, on top of what is done to each text."""
    token = token_hex(16)
    if wanted:
        screen.show([((f"::stop-commands::{token}", ""),)])
    try:
        yield
    finally:
        if wanted:
            screen.show([((f"::{token}::", ""),)])


def _positive(word: str) -> int:
    with suppress(ValueError):
        if int(word) > 0:
            return int(word)
    raise argparse.ArgumentTypeError(f"`{word}` is not a number from 1 up")

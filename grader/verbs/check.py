"""Grade a student's repairs and say what is still wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields, replace
from pathlib import Path
from secrets import token_hex

from grader import catalog
from grader.errors import BrokenExercise, UsageError
from grader.hand_in import handed_in
from grader.records import Exercise, ExerciseResult, Level, Outcome, Report, Request
from grader.report import text
from grader.report.files import Files
from grader.report.gradescope import VISIBILITIES
from grader.report.terminal import Screen
from grader.verbs.grading import DEFAULT_SEED, open_grader
from grader.verbs.tally import Tally

INTERRUPTED = 130


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
    parser.add_argument("--watch", action="store_true", help="check again whenever a file is saved, and move on")
    parser.add_argument("--jobs", type=_positive, default=1, metavar="N", help="grade N exercises at a time")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Grade what is asked for, in this copy or in a folder that was handed in."""
    course = catalog.load_course(root)
    if not course:
        raise BrokenExercise("exercises:1: there is no exercise here. Get a complete copy of the course.")
    submission = handed_in(course, arguments.submission) if arguments.submission else nullcontext(course)
    with submission as course:
        return _check(arguments, course, root)


def _check(arguments: argparse.Namespace, course: tuple[Exercise, ...], root: Path) -> int:
    """Show each result as it comes, and return 0 if all that was asked for passed."""
    request = Request(
        tuple(arguments.slugs), arguments.all, arguments.seed, arguments.jobs, trace=arguments.trace is not None
    )
    chosen = catalog.select(course, request.slugs) if request.slugs else course
    screen = Screen(sys.stdout, sys.stderr)
    if arguments.watch:
        return _watch(arguments, root, screen)
    files = _files(arguments, chosen)
    with _harmless_to_github(screen, arguments.github):
        tally = Tally(course, keeps_notes=not arguments.submission)
        report, interrupted = _grade_all(request, chosen, tally, screen, files)
        screen.show(_last_lines(report, interrupted, screen.look))
    if arguments.github:
        from grader.report import github

        report = files.whole(report)
        screen.show([((command, ""),) for command in github.commands(report, root)])
        github.write_files(report)
    return INTERRUPTED if interrupted else exit_code(report.results)


def _files(arguments: argparse.Namespace, chosen: tuple[Exercise, ...]) -> Files:
    asked = vars(arguments)
    return Files(chosen, **{name: asked[name] for name in (field.name for field in fields(Files)) if name in asked})


def _watch(arguments: argparse.Namespace, root: Path, screen: Screen) -> int:
    if _files(arguments, ()) != Files(()) or arguments.submission or arguments.jobs > 1:
        raise UsageError(
            "--watch shows what it finds as you go; what writes files, --submission and --jobs are for one run."
        )
    from grader.verbs.watch import watch

    return watch(root, arguments.slugs, DEFAULT_SEED if arguments.seed is None else arguments.seed, screen)


def exit_code(results: Sequence[ExerciseResult]) -> int:
    """Return 0 when all passed, 3 when the grader or an exercise is at fault, else 1."""
    outcomes = {result.outcome for result in results}
    return 3 if Outcome.ERROR in outcomes else int(outcomes != {Outcome.PASSED})


def _grade_all(
    request: Request, chosen: Sequence[Exercise], tally: Tally, screen: Screen, files: Files
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
                next_slug = tally.next_slug(exercise) if request.slugs and exercise is chosen[-1] else ""
                screen.show(block(graded.result, tally, screen.look, next_slug))
                if graded.result.outcome is not Outcome.PASSED and not (request.slugs or request.all):
                    break
    except KeyboardInterrupt:
        return report, True
    finally:
        screen.tell("")
    return report, False


def block(result: ExerciseResult, tally: Tally, look: text.Look, next_slug: str = "") -> list[text.Line]:
    """Return the lines of one result, and an empty one after those that are more than one."""
    lines = text.block(result, tally.standing(result.submission.exercise.chapter), look, next_slug)
    return lines if len(lines) == 1 else [*lines, ()]


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

"""Say in words how an exercise ended: the fact, the way out, the command to paste."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from grader.records import CheckResult, ExerciseResult, Outcome, Report
from grader.safe_text import clean, escape, gutter, tail

Span = tuple[str, str]  # text and its style, in words of STYLES: "red", "bold", "bold green", ""
Line = tuple[Span, ...]

INDENT = "  "
MESSAGE_LIMIT, MESSAGE_LINES = 2000, 40
OURS = "This is a fault of the exercise or of the grader, not of your code. Please report it with these lines."


@dataclass(frozen=True)
class Look:
    """Choose what an output can show."""

    passed: str = "✓"
    failed: str = "✗"
    not_run: str = "·"
    error: str = "!"
    dot: str = "·"
    width: int = 100

    def sign(self, outcome: Outcome) -> Span:
        """Return the sign of an outcome, with its colour."""
        return {
            Outcome.PASSED: (self.passed, "bold green"),
            Outcome.FAILED: (self.failed, "bold red"),
            Outcome.NOT_RUN: (self.not_run, "dim"),
            Outcome.ERROR: (self.error, "bold magenta"),
        }[outcome]


UNICODE = Look()
ASCII = Look(passed="+", failed="x", not_run="-", error="!", dot="-")


@dataclass(frozen=True)
class Standing:
    """Count what is repaired in one chapter."""

    repaired: int
    total: int


def render(result: ExerciseResult, standing: Standing | None = None, look: Look = UNICODE, next_slug: str = "") -> str:
    """Return one exercise's block as plain text, which is what the golden files of an exercise hold."""
    return plain(block(result, standing, look, next_slug))


def plain(lines: Sequence[Line]) -> str:
    """Return lines without their styles."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def block(result: ExerciseResult, standing: Standing | None, look: Look, next_slug: str = "") -> list[Line]:
    """Return one exercise's block, styled; `next_slug` is what a student may do once it passes."""
    say = {
        Outcome.PASSED: _passed,
        Outcome.FAILED: _failed,
        Outcome.NOT_RUN: _not_run,
        Outcome.ERROR: _error,
    }[result.outcome]
    fact, *lines = say(result, look)
    warnings = [line for warning in result.warnings for line in paragraph(f"warning: {warning}", look, "yellow")]
    after = [command("next", f"nox -s check -- {next_slug}")] if next_slug and result.outcome is Outcome.PASSED else []
    return [_header(result, plain([fact]), standing, look), *lines, *warnings, *after]


def footer(report: Report, look: Look) -> list[Line]:
    """Return what holds for the whole run: how many passed, how confined the ranks were, the seed."""
    facts = [f"isolation {report.isolation.name}", f"seed {report.seed}"]
    if len(report.results) > 1:
        passed = sum(result.outcome is Outcome.PASSED for result in report.results)
        points, most = points_of(report)
        facts = [f"{passed} of {len(report.results)} repaired", f"{points} of {most} points", *facts]
    return [((f"{INDENT}{f' {look.dot} '.join(facts)}", "dim"),)]


def points_of(report: Report) -> tuple[int, int]:
    """Return the points earned and the most that these exercises give."""
    results = report.results
    return sum(result.points for result in results), sum(result.submission.exercise.points for result in results)


def paragraph(text: str, look: Look, style: str = "") -> list[Line]:
    """Return text that may hold a submission's words, made harmless and wrapped; its own line ends and indents stay."""
    lines: list[Line] = []
    for line in clean(text, MESSAGE_LIMIT, MESSAGE_LINES).expandtabs(4).split("\n"):
        lead = INDENT + line[: len(line) - len(line.lstrip())]
        wrapped = textwrap.wrap(
            line.strip(),
            max(look.width, 40),
            initial_indent=lead,
            subsequent_indent=lead,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [((escape(part), style),) for part in wrapped]  # again: wrapping may put a `::` first
    return lines


def command(label: str, words: str) -> Line:
    """Return a line to copy from; it is never wrapped."""
    return ((f"{INDENT}{label}: ", ""), (words, "bold"))


def hint_label(number: int, check: CheckResult) -> str:
    """Return "hint 1 of 3": those of the check, and the exercise's last."""
    return f"hint {number} of {len(check.promise.hints) + 1}"


def _passed(result: ExerciseResult, look: Look) -> list[Line]:
    lines: list[Line] = [((f"{count(len(result.checks), 'check')}   {result.seconds:.1f} s", ""),)]
    if result.changed_lines is not None and result.reference_changed_lines is not None:
        yours, ours = count(result.changed_lines, "line"), result.reference_changed_lines
        lines += paragraph(f"you changed {yours}; the reference changes {ours}", look)
    return lines


def _failed(result: ExerciseResult, look: Look) -> list[Line]:
    check, slug = result.first_failure, result.submission.exercise.slug
    if check is None:
        return [(("no check could run", ""),), *paragraph(result.message, look), _again(slug, look)[0]]
    lines: list[Line] = [((f"check {_place(check, result)}", ""),), *_details(check, look)]
    if check.hint:
        lines += paragraph(f"{hint_label(1, check)}: {check.hint}", look, "cyan")
    *most, last = _again(slug, look, f"nox -s hint -- {slug}")
    return [*lines, *most, last]


def _not_run(result: ExerciseResult, look: Look) -> list[Line]:
    return [(("not run", ""),), *paragraph(result.message, look)]


def _error(result: ExerciseResult, look: Look) -> list[Line]:
    check, slug = result.first_failure, result.submission.exercise.slug
    fact = f"check {_place(check, result)} could not be judged" if check else "could not be graded"
    details = _details(check, look) if check else paragraph(result.message, look)
    return [((fact, ""),), *paragraph(OURS, look), *details, _again(slug, look)[0]]


def _details(check: CheckResult, look: Look) -> list[Line]:
    """Return promise, message and the end of what was printed."""
    lines = paragraph(check.promise.sentence, look, "bold")
    lines += paragraph(check.message, look)
    if check.output.strip():
        lines.append(((f"{INDENT}printed:", ""),))
        lines += [((line, "dim"),) for line in gutter(tail(check.output)).split("\n")]
    return lines


def _again(slug: str, look: Look, hint: str = "") -> list[Line]:
    again = command("again", f"nox -s check -- {slug}")
    if not hint:
        return [again]
    both = (*again, ("        next hint: ", ""), (hint, "bold"))
    return [both] if len(plain([both])) <= look.width else [again, command("next hint", hint)]


def _header(result: ExerciseResult, fact: str, standing: Standing | None, look: Look) -> Line:
    exercise = result.submission.exercise
    left: Line = (look.sign(result.outcome), (f" {exercise.slug}", "bold"), (f"   {fact}", ""))
    if standing is None:
        return left
    right = f"ch{exercise.chapter} {look.dot} {standing.repaired} of {standing.total} repaired"
    gap = max(3, min(look.width, 92) - len(plain([left])) - len(right))
    return (*left, (" " * gap + right, "dim"))


def _place(check: CheckResult, result: ExerciseResult) -> str:
    return f"{result.checks.index(check) + 1} of {len(result.checks)}"


def count(number: int, what: str) -> str:
    """Return "1 check" or "2 checks"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

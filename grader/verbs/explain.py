"""Ask what was wrong once an exercise passes; the right answer opens the explanation, and the reference beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from zlib import crc32

from grader import catalog, changes, files_in, notes, quiz
from grader.errors import RefusedFile, UsageError
from grader.records import Exercise, Question
from grader.report.terminal import Screen
from grader.report.text import Line, Look, command, paragraph
from grader.safe_text import escape

DIFF_STYLES = {"-": "red", "+": "green", "@": "dim"}
MAX_DIFF_LINES = 400


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise")
    parser.add_argument("--answer", metavar="LETTER", help="the choice that you take, where nobody is asked")
    parser.add_argument("--seed", type=int, help="decide the order of the choices")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Ask for the mechanism and open what follows; 1 as long as it is not named."""
    (exercise,) = catalog.select(catalog.load_course(root), [arguments.slug])
    return explain(exercise, Screen(sys.stdout, sys.stderr), arguments.answer, arguments.seed)


def explain(exercise: Exercise, screen: Screen, answer: str | None = None, seed: int | None = None) -> int:
    """Do the verb's work for one exercise."""
    events, complaints = notes.of(exercise)
    screen.show([line for complaint in complaints for line in paragraph(complaint, screen.look, "yellow")])
    if not notes.has_passed(events):
        words = "The explanation opens after all checks have passed: it would take the flaw's discovery from you."
        screen.show([*paragraph(words, screen.look), command("again", f"nox -s check -- {exercise.slug}")])
        return 1
    if not notes.knows_mechanism(events):
        seed = crc32(f"{exercise.slug}/{len(notes.mechanism_tries(events))}".encode()) if seed is None else seed
        if not _ask(exercise, seed, answer, screen):
            return 1
    screen.show([*_explanation(exercise, screen.look), *_beside_reference(exercise, screen.look)])
    return 0


def _ask(exercise: Exercise, seed: int, answer: str | None, screen: Screen) -> bool:
    """Ask until the mechanism is named; say of each wrong choice why it is wrong, and keep it."""
    question = quiz.name_the_mechanism(catalog.mechanism(exercise), seed)
    screen.show(_question(question, screen.look))
    while True:
        chosen = _choice(question, answer, screen)
        if chosen is None:
            words = "The explanation opens when the mechanism is named."
            screen.show([*paragraph(words, screen.look), command("again", f"nox -s explain -- {exercise.slug}")])
            return False
        choice = question.choices[chosen[0]]
        complaint = notes.append(exercise.student_dir, "mechanism", choice=choice.text, right=choice.right, seed=seed)
        if complaint:
            print(complaint, file=sys.stderr)
        words = "Yes, that is it." if choice.right else f"Not that. {choice.why}"
        screen.show([(), *paragraph(words, screen.look, "green" if choice.right else "yellow"), ()])
        if choice.right or answer is not None:
            return choice.right


def _question(question: Question, look: Look) -> list[Line]:
    lines = paragraph(question.text, look, "bold")
    for letter, choice in zip("abcdefgh", question.choices, strict=False):
        lines += paragraph(f"{letter}) {choice.text}", look)
    return lines


def _choice(question: Question, answer: str | None, screen: Screen) -> tuple[int] | None:
    """Return which choice was taken, None if nobody answers."""

    def understand(words: str) -> tuple[int] | str:
        verdict = quiz.judge(question, words)
        return verdict if isinstance(verdict, str) else (ord(quiz.chosen(words)) - ord("a"),)

    if answer is None:
        return screen.ask("one letter", understand)
    understood = understand(answer)
    if isinstance(understood, str):
        raise UsageError(f"--answer: {understood}")
    return understood


def _explanation(exercise: Exercise, look: Look) -> list[Line]:
    mechanism = catalog.mechanism(exercise)
    lines = paragraph(mechanism.sentence, look, "bold")
    for part in mechanism.explanation.strip().split("\n\n"):
        lines += [(), *paragraph(part, look)]
    lines += [(), (("  Further reading", "bold"),)]
    for title, url in mechanism.reading:
        lines += [*paragraph(title, look), ((f"    {url}", "cyan"),)]
    return lines


def _beside_reference(exercise: Exercise, look: Look) -> list[Line]:
    """Return the student's version beside the reference, where this copy holds it."""
    if not exercise.reference_path.exists():
        return []
    try:
        yours = files_in.take(exercise.student_dir, exercise.starter_path.name).decode("utf-8-sig", "replace")
    except RefusedFile as refusal:
        return [(), *paragraph(str(refusal), look, "yellow")]
    diff = changes.difference(yours, exercise.reference_path.read_text(encoding="utf-8"))
    if not diff:
        return [(), *paragraph("Your version is the reference, letter by letter.", look)]
    lines: list[Line] = [(), (("  Your version (-) beside the reference (+)", "bold"),)]
    lines += [((f"  {escape(line)}", DIFF_STYLES.get(line[:1], "")),) for line in diff[:MAX_DIFF_LINES]]
    left_out = len(diff) - MAX_DIFF_LINES
    return [*lines, *(paragraph(f"[{left_out} more lines]", look, "dim") if left_out > 0 else [])]

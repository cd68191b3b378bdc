"""Ask a chapter's ten questions, explain after each answer, and keep the answers in the chapter's folder."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from grader import catalog, notes, quiz
from grader.errors import UsageError
from grader.records import Question
from grader.report.terminal import Screen
from grader.report.text import Look, paragraph
from grader.sealed import reference_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("chapter", metavar="CHAPTER", type=int, help="the chapter's number")
    parser.add_argument("--seed", type=int, help="repeat the order and the numbers of an earlier try")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Ask until all questions are answered or the input ends; 0 if at least 80 % were right."""
    course = catalog.load_course(root)
    file, folder = _places(root, arguments.chapter, {exercise.chapter for exercise in course})
    seed = int(time.time()) % 1_000_000 if arguments.seed is None else arguments.seed
    screen, questions = Screen(sys.stdout, sys.stderr), quiz.load(file, seed)
    right = answered = 0
    for place, question in enumerate(questions, 1):
        print(f"\n{place} of {len(questions)}")
        verdict = _ask(question, screen)
        if verdict is None:
            break
        answered, right = answered + 1, right + verdict
        complaint = notes.append(folder, "answer", question=question.id, right=verdict, seed=seed)
        if complaint:
            print(complaint, file=sys.stderr)
    return _conclude(screen, arguments.chapter, right, answered, len(questions))


def _places(root: Path, chapter: int, known: set[int]) -> tuple[Path, Path]:
    """Return the knowledge check of a chapter and the folder of its notes."""
    for folder in sorted((root / "exercises").glob(f"ch{chapter}_*")):
        file = reference_of(root) / folder.name / "quiz.toml"
        if file.exists():
            return file, folder
    numbers = ", ".join(map(str, sorted(known)))
    raise UsageError(f"There is no knowledge check of chapter {chapter}. The chapters are {numbers}.")


def _ask(question: Question, screen: Screen) -> bool | None:
    """Ask one question until it is answered; return whether rightly, None when the input ends."""
    look = screen.look
    screen.show(paragraph(question.text, look, "bold"))
    for place, choice in enumerate(question.choices):
        screen.show(paragraph(f"{chr(ord('a') + place)}) {choice.text}", look))
    prompt = {"single": "one letter", "several": "all letters that apply", "numeric": f"a number in {question.unit}"}
    given = ""

    def understand(answer: str) -> bool | str:
        nonlocal given
        given = answer
        return quiz.judge(question, answer)

    verdict = screen.ask(prompt[question.kind], understand)
    if verdict is not None:
        _explain(question, given, verdict, screen, look)
    return verdict


def _explain(question: Question, answer: str, verdict: bool, screen: Screen, look: Look) -> None:
    """Say whether the answer was right, why each chosen wrong one is wrong, and how it is."""
    wanted = f"{question.number:.6g} {question.unit}" if question.kind == "numeric" else quiz.letters_of(question)
    screen.show(paragraph("Right." if verdict else f"Not quite: {wanted}.", look, "green" if verdict else "red"))
    for place, choice in enumerate(question.choices):
        letter = chr(ord("a") + place)
        if choice.right or letter in quiz.chosen(answer):
            screen.show(paragraph(f"{letter}: {choice.why}", look))
    screen.show(paragraph(question.explanation, look))
    for source in question.sources:
        print(f"  {source}")


def _conclude(screen: Screen, chapter: int, right: int, answered: int, asked: int) -> int:
    passed = answered == asked and quiz.is_passed(right, asked)
    if answered < asked:
        words = f"{answered} of {asked} answered. The answers are kept; a new try asks all questions again."
    elif passed:
        words = f"{right} of {asked} right: chapter {chapter}'s knowledge check is passed."
    else:
        words = f"{right} of {asked} right; {int(quiz.PASS_SHARE * 100)} % pass. Try again, in another order."
    print()
    screen.show(paragraph(words, screen.look, "bold"))
    return 0 if passed else 1

"""Every knowledge check can be asked, drawn anew and answered; the right answer is right, whatever its form."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from grader import quiz
from grader.errors import BrokenExercise
from grader.records import Question

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(ROOT.glob("reference/ch*/quiz.toml"))


def right_answer(question: Question) -> str:
    """Return what a student who knows would type."""
    return f"{question.number!r} {question.unit}" if question.kind == "numeric" else quiz.letters_of(question)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_a_knowledge_check_holds_ten_questions_of_all_kinds(file: Path) -> None:
    """And each can be answered rightly, under any draw."""
    for seed in range(20):
        questions = quiz.load(file, seed)
        assert len(questions) == 10
        assert {question.kind for question in questions} == {"single", "several", "numeric"}
        assert all(quiz.judge(question, right_answer(question)) is True for question in questions)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_length_does_not_give_the_right_answer_away(file: Path) -> None:
    """Whoever always takes the longest of four choices stays near chance, and so does the shortest."""
    singles = [question for question in quiz.load(file, 0) if question.kind == "single"]
    for extreme in (max, min):
        hits = sum(extreme(question.choices, key=lambda choice: len(choice.text)).right for question in singles)
        assert hits <= max(2, len(singles) / 2), f"{hits} of {len(singles)} right answers are found by length alone"


HEDGES = {"about", "nearly", "most", "some", "may", "if", "unless", "mostly", "usually"}
ABSOLUTES = {"never", "always", "all", "every", "each", "both", "only", "any", "neither", "no"}


@pytest.mark.parametrize("tempting", [HEDGES, ABSOLUTES], ids=["hedges", "absolutes"])
def test_wording_does_not_give_the_right_answer_away(tempting: set[str]) -> None:
    """Whoever takes the most, or the least, hedged or absolute of the choices of all quizzes stays near chance."""
    singles = [question for file in FILES for question in quiz.load(file, 0) if question.kind == "single"]
    for sign in (1, -1):
        share = sum(lucky(question, tempting, sign) for question in singles) / len(singles)
        assert share < 0.4, f"{share:.0%} of the right answers are found by wording alone"


def lucky(question: Question, tempting: set[str], sign: int) -> float:
    """Return the chance of the right choice among those that hold most, or fewest, of these words."""
    counts = [sign * len(tempting & set(choice.text.lower().strip(".").split())) for choice in question.choices]
    taken = [choice.right for choice, count in zip(question.choices, counts, strict=True) if count == max(counts)]
    return sum(taken) / len(taken)


def test_no_choice_argues_for_itself() -> None:
    """A reason in a choice can be weighed without the question; reasons come after the answer."""
    questions = [question for file in FILES for question in quiz.load(file, 0)]
    texts = [choice.text for question in questions for choice in question.choices]
    assert not [text for text in texts if {"since", "because", "so"} & set(text.replace(",", " ").split())]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_another_seed_draws_another_order_and_other_numbers(file: Path) -> None:
    """And the same seed the same."""
    assert quiz.load(file, 1) == quiz.load(file, 1)
    orders = {tuple(question.id for question in quiz.load(file, seed)) for seed in range(5)}
    numbers = {tuple(sorted(question.number for question in quiz.load(file, seed))) for seed in range(10)}
    assert len(orders) > 1
    assert len(numbers) > 1


NUMERIC = Question("n", (1,), "numeric", "How many?", "So.", number=1_234.5, unit="MB", rtol=0.01)
SEVERAL = quiz.load(FILES[0], 0)


@pytest.mark.parametrize("answer", ["1234.5", "1,234.5 MB", "1 234.5mb", "1.2345e3", " 1230 MB "])
def test_a_number_is_understood_in_the_forms_people_write(answer: str) -> None:
    """With or without the unit, with separators, within the tolerance."""
    assert quiz.judge(NUMERIC, answer) is True


@pytest.mark.parametrize(
    ("answer", "fragment"), [("many", "a number in MB"), ("", "a number in MB"), ("1.2 GB", "not in GB")]
)
def test_nonsense_gets_a_sentence_and_no_verdict(answer: str, fragment: str) -> None:
    """Another unit too: the question says which it wants."""
    said = quiz.judge(NUMERIC, answer)
    assert isinstance(said, str)
    assert fragment in said


def test_letters_are_understood_in_the_forms_people_write() -> None:
    """Order, case and separators do not matter."""
    question = next(question for question in SEVERAL if question.kind == "several")
    letters = quiz.letters_of(question)
    for form in (letters, letters[::-1].upper(), ", ".join(letters), " and ".join(letters)):
        assert quiz.judge(question, form) is True
    assert quiz.judge(question, letters[:1]) is False
    assert isinstance(quiz.judge(question, "z"), str)


@pytest.mark.parametrize(("right", "passes"), [(8, True), (7, False), (10, True), (0, False)])
def test_eighty_percent_pass(right: int, passes: bool) -> None:
    """Of ten, eight."""
    assert quiz.is_passed(right, 10) is passes


def test_a_formula_is_arithmetic_and_nothing_else(tmp_path: Path) -> None:
    """No call, no attribute, no name that was not drawn."""
    text = FILES[0].read_text(encoding="utf-8")
    for formula in ("__import__('os')", "p.real", "q * 2"):
        file = tmp_path / "quiz.toml"
        file.write_text(text.replace("2 * (p - 1) / p * n", formula), encoding="utf-8")
        with pytest.raises(BrokenExercise, match="cannot be worked out"):
            quiz.load(file, 0)


def test_a_student_takes_it_at_a_terminal(tmp_path: Path) -> None:
    """Ten right answers at a real pseudo-terminal pass, and each is kept as a note."""
    checkout = tmp_path / "checkout"
    for part in ("exercises", "reference"):
        (checkout / part).mkdir(parents=True)
        (checkout / part / FILES[0].parent.name).symlink_to(ROOT / part / FILES[0].parent.name)
    (checkout / "exercises" / FILES[0].parent.name).unlink()
    folder = checkout / "exercises" / FILES[0].parent.name
    folder.mkdir()
    for exercise in (ROOT / "exercises" / FILES[0].parent.name).iterdir():
        (folder / exercise.name).symlink_to(exercise)
    script = "import sys; from pathlib import Path; from grader import cli; "
    script += f"sys.exit(cli.main(sys.argv[1:], Path({str(checkout)!r})))"
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", script, "quiz", "1", "--seed", "3"]
    with subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        for question in quiz.load(FILES[0], 3):
            os.write(ours, f"{right_answer(question)}\n".encode())
        said = b""
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            said += data
    assert process.returncode == 0, said.decode("utf-8", "replace")[-2000:]
    assert b"10 of 10 right" in said
    events = [json.loads(line) for line in (folder / "notes.jsonl").read_text().splitlines()]
    assert [event["right"] for event in events] == [True] * 10

"""Read a chapter's knowledge check, draw its order and numbers anew, and judge an answer."""

from __future__ import annotations

import ast
import math
import operator
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from grader.records import Choice, Mechanism, Question
from grader.tables import Table

PASS_SHARE: Final = 0.8
KINDS: Final = ("single", "several", "numeric")
NUMBER: Final = re.compile(r"\s*([-+]?(?:\d[\d ,_]*)?\.?\d+(?:[eE][-+]?\d+)?)\s*(.*)", re.DOTALL)
OPERATORS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def load(file: Path, seed: int) -> tuple[Question, ...]:
    """Return the questions of a `quiz.toml` in an order, with choices and numbers, that `seed` decides.

    Raises:
        BrokenExercise: the file is not as it should be.
    """
    table, rng = Table.read(file), random.Random(seed)
    tables = [table.inner(entry, "questions") for entry in table.take("questions", list)]
    table.refuse_rest()
    questions = [_question(entry, rng) for entry in tables]
    table.demand(len({question.id for question in questions}) == len(questions), "id", "two questions have one `id`")
    rng.shuffle(questions)
    return tuple(questions)


def name_the_mechanism(mechanism: Mechanism, seed: int) -> Question:
    """Return the question that opens an exercise's explanation, its choices in an order that `seed` decides."""
    choices = [Choice(mechanism.sentence, True, ""), *(Choice(text, False, why) for text, why in mechanism.distractors)]
    random.Random(seed).shuffle(choices)
    text = "What was wrong with the starter, and why did that fail?"
    return Question("mechanism", (), "single", text, mechanism.explanation, choices=tuple(choices))


def is_passed(right: int, asked: int) -> bool:
    """Return whether enough answers were right: 80 %."""
    return asked > 0 and right >= math.ceil(PASS_SHARE * asked)


def judge(question: Question, answer: str) -> bool | str:
    """Return whether an answer is right, or a sentence if it is none: choices by letter, a number with its unit."""
    return _judge_number(question, answer) if question.kind == "numeric" else _judge_letters(question, answer)


def letters_of(question: Question) -> str:
    """Return the letters of the right choices."""
    return "".join(chr(ord("a") + place) for place, choice in enumerate(question.choices) if choice.right)


def _question(table: Table, rng: random.Random) -> Question:
    kind = table.take("kind", str)
    table.demand(kind in KINDS, "kind", f"`kind` is one of {', '.join(KINDS)}")
    question = Question(
        id=table.take("id", str),
        concepts=tuple(table.take("concepts", list)),
        kind=kind,
        text=table.take("text", str),
        explanation=table.take("explanation", str),
        sources=table.take_texts("sources"),
    )
    question = _with_number(question, table, rng) if kind == "numeric" else _with_choices(question, table, rng)
    table.refuse_rest()
    return question


def _with_choices(question: Question, table: Table, rng: random.Random) -> Question:
    tables = [table.inner(entry, "choices") for entry in table.take("choices", list)]
    choices = [Choice(each.take("text", str), each.take("right", bool), each.take("why", str)) for each in tables]
    for each in tables:
        each.refuse_rest()
    right = sum(choice.right for choice in choices)
    fits = right == 1 if question.kind == "single" else 1 < right < len(choices)
    table.demand(fits and len(choices) >= 4, "choices", f"`{question.id}` has {right} right of {len(choices)} choices")
    rng.shuffle(choices)
    return replace(question, choices=tuple(choices))


def _with_number(question: Question, table: Table, rng: random.Random) -> Question:
    drawn = {name: rng.choice(values) for name, values in sorted(table.take("draw", dict, {}).items())}
    formula, unit, rtol = table.take("answer", str), table.take("unit", str), table.take("rtol", float)
    try:
        number = float(_evaluate(ast.parse(formula, mode="eval").body, drawn))
        text, explanation = (
            words.format(**drawn, answer=_show(number)) for words in (question.text, question.explanation)
        )
    except (SyntaxError, KeyError, ValueError, ArithmeticError, IndexError) as error:
        table.demand(False, "answer", f"`{question.id}` cannot be worked out ({type(error).__name__}: {error})")
        raise
    return replace(question, text=text, explanation=explanation, number=number, unit=unit, rtol=rtol)


def _evaluate(node: ast.expr, names: Mapping[str, float]) -> Any:
    """Work out arithmetic over the drawn names, and nothing else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_evaluate(node.left, names), _evaluate(node.right, names))
    raise ValueError(f"`{ast.unparse(node)}` is not arithmetic")


def chosen(answer: str) -> str:
    """Return the letters of an answer such as "a", "ac" or "A, C and d", sorted; "" if it is none."""
    letters = re.sub(r"\band\b|[\s,;&+]", "", answer.lower())
    return "".join(sorted(set(letters))) if letters.isalpha() and letters.isascii() else ""


def _judge_letters(question: Question, answer: str) -> bool | str:
    given, last = chosen(answer), chr(ord("a") + len(question.choices) - 1)
    if not given or given[-1] > last:
        return f"Answer with {'one letter' if question.kind == 'single' else 'letters'} from a to {last}."
    if question.kind == "single" and len(given) > 1:
        return "One of them is right: answer with one letter."
    return given == letters_of(question)


def _judge_number(question: Question, answer: str) -> bool | str:
    found = NUMBER.fullmatch(answer)
    if found is None:
        return f"Answer with a number in {question.unit}, as in {_show(1.5)} {question.unit}."
    unit = found[2].strip()
    if unit and unit.lower() != question.unit.lower():
        return f"The answer is asked for in {question.unit}, not in {unit[:40]}."
    number = float(re.sub(r"[ ,_]", "", found[1]))
    return abs(number - question.number) <= question.rtol * abs(question.number)


def _show(number: float) -> str:
    return f"{number:.6g}"

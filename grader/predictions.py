"""Understand a prediction, compare it with what came out, and tell the story of an experiment from its notes.

Data in, data out: the terminal and the playground ask with these functions, and write the same notes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.quantities import Span, read_span, show
from grader.records import Experiment, Observation

MAX_CHARACTERS = 300
PANEL = "panel:"  # begins the `code` of what a picture of the playground asked, which is another question
TOLERANCE = 0.05  # relative: whoever predicts 2 and sees 2.05 has understood

_STEPS: Mapping[str, float | str] = {
    r"(?:it )?(?:stays?|remains?|keeps)(?: (?:the same|constant|equal|as (?:it is|before)))?|(?:the )?same|constant"
    r"|unchanged|no change|flat|equal|does(?: not|n't) change": 1.0,
    r"(?:it )?doubles?|twice(?: as .*)?|two times as .*": 2.0,
    r"(?:it )?halves|half(?: as .*)?|halved|is halved": 0.5,
    r"(?:it )?triples?|three times as .*": 3.0,
    r"(?:it )?quadruples?|four times as .*": 4.0,
    r"(?:it )?(?:grows|rises|increases|goes up)|up|more|larger|higher|bigger|longer": "grows",
    r"(?:it )?(?:falls|shrinks|decreases|drops|goes down)|down|less|fewer|smaller|lower|shorter": "falls",
    r"(?:it )?(?:hangs|deadlocks?|crash(?:es)?|fails|raises(?: an? .*)?|errors?|never returns)": "fails",
}
_FACTOR = re.compile(r"(?:x|×|\*|times)\s*(\d+(?:\.\d+)?)|(?:/|÷|divided by)\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_ALWAYS = re.compile(r"\b(?:always|everywhere|each time|for all|in all cases|each)\b", re.IGNORECASE)
_SEPARATORS = (r"\s*[;\n]\s*|,\s+|\s+then\s+|\s*->\s*|\s*→\s*", r"\s*[;,\n]\s*|\s+then\s+", r"\s+")


@dataclass(frozen=True)
class Claim:
    """Hold what was predicted for one value of the control: an amount, a step from the value before, or a failure."""

    words: str
    span: Span | None = None
    factor: float | None = None  # times the result before
    direction: str = ""  # "grows", "falls" or "fails"


@dataclass(frozen=True)
class Judged:
    """Put a claim beside what came out; `words` say how far off it was."""

    observation: Observation
    claim: Claim | None
    is_right: bool | None  # None where nothing was claimed, or nothing can be said
    words: str


@dataclass(frozen=True)
class Round:
    """Hold what was predicted and seen with one version of a student's code."""

    code: str
    predictions: tuple[
        Mapping[str, Any], ...
    ] = ()  # the last one counts: it could be changed until the result was seen
    observations: tuple[Observation, ...] = ()
    additions: tuple[Mapping[str, Any], ...] = field(default=())  # written after the result was seen

    @property
    def guess(self) -> str:
        """Return the prediction that counts, or nothing."""
        return str(self.predictions[-1]["guess"]) if self.predictions else ""


def parse(experiment: Experiment, guess: str) -> tuple[Claim | None, ...] | str:
    """Return a claim for each value of the control, None where none was made, or a sentence if it is no prediction."""
    words = " ".join(guess[: MAX_CHARACTERS + 1].split(" ")).strip().rstrip(".")
    if len(words) > MAX_CHARACTERS:
        return f"A prediction has at most {MAX_CHARACTERS} characters; the reason is asked for after it."
    if not words:
        return how_to_answer(experiment)
    n, complaint = len(experiment.values), ""
    for separator in _SEPARATORS:
        items = [item for item in re.split(separator, words) if item]
        claims = [_claim(_without_lead(item), experiment.unit) for item in items]
        wrong = next((claim for claim in claims if isinstance(claim, str)), "")
        understood = [claim for claim in claims if isinstance(claim, Claim)]
        if not wrong and (arranged := _arrange(understood, n, words)):
            return arranged
        complaint = complaint or wrong
        if not wrong:
            complaint = f"That is {_count(len(items))}, and {experiment.control} takes {n} values."
    return f"{complaint} {how_to_answer(experiment)}"


def how_to_answer(experiment: Experiment) -> str:
    """Return a sentence that says what a prediction may look like."""
    values, n = ", ".join(f"{value:g}" for value in experiment.values), len(experiment.values)
    numbers = ", ".join(str(number) for number in range(5, 5 + n))
    return (
        f"Answer with {n} numbers or ranges, one for each of {experiment.control} = {values}, such as `{numbers}` "
        f"or `at most 3, 4 to 6, ...`, or with what happens from one to the next: `stays`, `doubles`, `halves`, "
        f"`x4`, `grows`, `falls`, `hangs`."
    )


def compare(claims: Sequence[Claim | None], observations: Sequence[Observation]) -> tuple[Judged, ...]:
    """Put each claim beside what came out for the same value of the control."""
    befores = [None, *(observation.result for observation in observations)]
    return tuple(
        Judged(observation, claim, *_judge(claim, observation, before))
        for claim, observation, before in zip(claims, observations, befores, strict=False)
    )


def rounds(events: Iterable[Mapping[str, Any]]) -> tuple[Round, ...]:
    """Return the story of an experiment, one round for each version of the code, from its notes, oldest first."""
    found: dict[str, Round] = {}
    for event in events:
        if event["kind"] not in {"prediction", "result"} or event["code"].startswith(PANEL):
            continue
        this = found.get(event["code"], Round(event["code"]))
        if event["kind"] == "result":
            this = this if this.observations else Round(this.code, this.predictions, _observations(event["results"]))
        elif this.observations:
            this = Round(this.code, this.predictions, this.observations, (*this.additions, event))
        else:
            this = Round(this.code, (*this.predictions, event))
        found[event["code"]] = this
    return tuple(found.values())


def as_results(observations: Sequence[Observation]) -> list[list[object]]:
    """Return observations as a note of kind `result` keeps them: what is no finite number stands as text."""
    return [[each.value, _as_note(each.result), each.failure] for each in observations]


def _without_lead(item: str) -> str:
    return re.sub(r"^(?:and|then)\s+", "", _ALWAYS.sub("", item).strip(), flags=re.IGNORECASE)


def _claim(item: str, unit: str) -> Claim | str:
    for pattern, step in _STEPS.items():
        if re.fullmatch(pattern, item, re.IGNORECASE):
            return Claim(item, direction=step) if isinstance(step, str) else Claim(item, factor=step)
    if found := _FACTOR.fullmatch(item):
        by = float(found[1] or found[2])
        if by == 0:
            return f"`{item[:40]}` is no step from one value to the next."
        return Claim(item, factor=by if found[1] else 1 / by)
    span = read_span(item, unit)
    return span if isinstance(span, str) else Claim(item, span)


def _arrange(claims: list[Claim], n: int, words: str) -> tuple[Claim | None, ...] | None:
    """Return one claim for each value, or None if these are too many, too few, or a step stands first."""
    steps = [claim.span is None for claim in claims]
    if len(claims) == n and (not steps[0] or claims[0].direction == "fails"):
        return tuple(claims)
    if all(steps) and claims and (len(claims) == 1 or len(claims) == n - 1):
        return (None, *(claims * (n - 1) if len(claims) == 1 else claims))
    if len(claims) == 1 and _ALWAYS.search(words):
        return tuple(claims * n)
    return None


def _judge(claim: Claim | None, seen: Observation, before: float | None) -> tuple[bool | None, str]:
    if claim is None:
        return None, ""
    fails = seen.result is None
    if claim.direction == "fails" or fails:
        right = fails and claim.direction == "fails"
        return right, "as predicted" if right else "it failed" if fails else "it returned"
    assert seen.result is not None, "what has no result has failed"
    if claim.span is not None:
        return _judge_amount(claim.span, seen.result)
    if before is None:
        return None, "nothing to compare with: the value before gave no result"
    return _judge_step(claim, seen.result, before)


def _judge_amount(span: Span, result: float) -> tuple[bool, str]:
    low, high = _widened(span.low, -TOLERANCE), _widened(span.high, TOLERANCE)
    if low <= result <= high:
        return True, "as predicted" if span.low == span.high else "in the range"
    if span.low == span.high:
        return False, how_far(span.low, result)
    below = result < span.low
    return (
        False,
        f"{show(span.low - result if below else result - span.high)} {'below' if below else 'above'} the range",
    )


def _widened(edge: float, by: float) -> float:
    return edge + by * abs(edge) if math.isfinite(edge) else edge


def _judge_step(claim: Claim, result: float, before: float) -> tuple[bool, str]:
    margin = TOLERANCE * abs(before)
    if claim.direction:
        right = result > before + margin if claim.direction == "grows" else result < before - margin
    else:
        expected = before * float(claim.factor or 0)
        right = abs(result - expected) <= TOLERANCE * abs(expected)
    return right, "as predicted" if right else step_words(before, result)


def how_far(predicted: float, result: float) -> str:
    """Say how a result lies to a prediction: a factor where it is large, else per cent."""
    if predicted == 0 or not math.isfinite(result) or result * predicted <= 0:
        return f"off by {show(abs(result - predicted))}"
    ratio = result / predicted
    if ratio >= 1.5:
        return f"{show(ratio)} times as much as predicted"
    if ratio <= 1 / 1.5:
        return f"1/{show(1 / ratio)} of what was predicted"
    return f"{100 * abs(ratio - 1):.0f} % {'more' if abs(result) > abs(predicted) else 'less'} than predicted"


def step_words(before: float, result: float) -> str:
    """Say what happened from one result to the next."""
    if abs(result - before) <= TOLERANCE * abs(before):
        return "it stays"
    if before == 0 or not math.isfinite(result) or result * before <= 0:
        return f"it goes from {show(before)} to {show(result)}"
    ratio = result / before
    return f"it becomes {show(ratio)} times as much" if ratio > 1 else f"it becomes 1/{show(1 / ratio)} as much"


def _observations(results: Sequence[Any]) -> tuple[Observation, ...]:
    """Read what a note keeps; a line that somebody edited costs only itself."""
    return tuple(
        Observation(float(entry[0]), _of_note(entry[1]), str(entry[2]))
        for entry in results
        if isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], int | float)
    )


def _as_note(result: float | None) -> float | str | None:
    return result if result is None or math.isfinite(result) else str(result)


def _of_note(result: object) -> float | None:
    if isinstance(result, int | float):
        return float(result)
    return float(result) if isinstance(result, str) and result in {"nan", "inf", "-inf"} else None


def _count(number: int) -> str:
    return "one answer" if number == 1 else f"{number} answers"

"""Predictions are understood as people write them, compared with what came out, and kept as a story."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import predictions
from grader.predictions import Claim
from grader.quantities import Span, read_span, show
from grader.records import Experiment, Observation

TIMES = Experiment("?", "f", "world_size", (1, 2, 4), "gradient", "times one rank's", "simulated")
GB = Experiment("?", "f", "ranks", (1, 4, 64, 1024), "model state of a rank", "GB")


def seen(*results: float | None) -> tuple[Observation, ...]:
    """Return observations of these results."""
    return tuple(
        Observation(2**place, result, "" if result is not None else "It hangs.") for place, result in enumerate(results)
    )


def verdicts(experiment: Experiment, guess: str, *results: float | None) -> list[bool | None]:
    """Return which parts of a guess were right."""
    claims = predictions.parse(experiment, guess)
    assert not isinstance(claims, str), claims
    return [judged.is_right for judged in predictions.compare(claims, seen(*results))]


@pytest.mark.parametrize(
    ("words", "unit", "low", "high"),
    [
        ("120 GB", "GB", 120, 120),
        ("120gb", "GB", 120, 120),
        ("0.12 TB", "GB", 120, 120),
        ("500 MB", "GB", 0.5, 0.5),
        ("16", "GB", 16, 16),
        ("~2.5", "times one rank's", 2.5, 2.5),
        ("about 2x", "times one rank's", 2, 2),
        ("200 %", "times one rank's", 2, 2),
        ("20 percent", "% of the whole step", 20, 20),
        ("1/8", "times one rank's", 0.125, 0.125),
        ("1.5 ms", "us", 1500, 1500),
        ("20 µs", "us", 20, 20),
        ("90k", "steps", 90_000, 90_000),
        ("90 thousand steps", "steps", 90_000, 90_000),
        ("90,000 steps", "steps", 90_000, 90_000),
        ("-3", "(a number)", -3, -3),
        ("2..4", "heads", 2, 4),
        ("2-4 heads", "heads", 2, 4),
        ("4 to 2", "heads", 2, 4),
        ("between 2 and 4", "heads", 2, 4),
        ("500 MB to 1 GB", "GB", 0.5, 1),
        ("at most 3", "heads", -math.inf, 3),
        ("> 3", "heads", 3, math.inf),
        ("1 head", "heads", 1, 1),
        ("80 samples per second", "samples/s", 80, 80),
        ("3 of 20", "of 20", 3, 3),
    ],
)
def test_amounts_are_understood_as_people_write_them(words: str, unit: str, low: float, high: float) -> None:
    """Numbers, ranges, fractions, percentages and related units."""
    span = read_span(words, unit)
    assert isinstance(span, Span), span
    assert (span.low, span.high) == (pytest.approx(low), pytest.approx(high))


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ("many", "`many` is no number"),
        ("3 apples", "`apples` does not turn into"),
        ("3 ms", "`ms` does not turn into"),
        ("1/0", "divides by zero"),
        ("", "is no number"),
    ],
)
def test_what_is_no_amount_gets_a_sentence(words: str, fragment: str) -> None:
    said = read_span(words, "GB")
    assert isinstance(said, str)
    assert fragment in said


@pytest.mark.parametrize(
    ("guess", "right"),
    [
        ("1, 2, 4", [True, True, True]),
        ("1,2,4", [True, True, True]),
        ("1 2 4", [True, True, True]),
        ("1; 2; 4", [True, True, True]),
        ("1, 2, and 4", [True, True, True]),
        ("1x, 2x, 4x", [True, True, True]),
        ("1, 1, 1", [True, False, False]),
        ("always 1", [True, False, False]),
        ("it stays", [None, False, False]),
        ("doubles", [None, True, True]),
        ("x2", [None, True, True]),
        ("halves", [None, False, False]),
        ("grows", [None, True, True]),
        ("falls", [None, False, False]),
        ("doubles, then stays", [None, True, False]),
        ("1, doubles, 3 to 5", [True, True, True]),
        ("hangs", [None, False, False]),
    ],
)
def test_predictions_are_understood_as_people_write_them(guess: str, right: list[bool | None]) -> None:
    """Against a gradient that doubles where it should stay."""
    assert verdicts(TIMES, guess, 1.0, 2.0, 4.0) == right


def test_a_number_with_commas_is_one_number() -> None:
    steps = Experiment("?", "f", "batch", (8, 16), "steps", "steps")
    assert verdicts(steps, "90,000, 50,000", 90_000, 50_000) == [True, True]
    assert verdicts(steps, "100,200", 100, 200) == [True, True]


def test_units_are_converted() -> None:
    assert verdicts(GB, "0.12 TB, 48.75 GB, 31 GB, 30,100 MB", 120, 48.75, 31.64, 30.1) == [True] * 4


def test_a_failure_can_be_predicted() -> None:
    assert verdicts(TIMES, "1, hangs, hangs", 1.0, None, None) == [True, True, True]
    assert verdicts(TIMES, "hangs", 1.0, None, None) == [None, True, True]
    assert verdicts(TIMES, "doubles", 1.0, None, 4.0) == [None, False, None]


@pytest.mark.parametrize(
    ("guess", "fragment"),
    [
        ("", "Answer with 3 numbers or ranges, one for each of world_size = 1, 2, 4"),
        ("4", "That is one answer, and world_size takes 3 values."),
        ("1, 2, 3, 4, 5", "That is 5 answers"),
        ("it will be fine", "is no number"),
        ("doubles, 2, 4", "That is 3 answers"),
        ("1, 2 bananas, 4", "`bananas` does not turn into"),
        ("x0", "is no step"),
        ("1" * 301, "at most 300 characters"),
    ],
)
def test_nonsense_gets_a_sentence(guess: str, fragment: str) -> None:
    said = predictions.parse(TIMES, guess)
    assert isinstance(said, str)
    assert fragment in said


@given(st.text(max_size=80))
def test_any_text_is_a_prediction_or_gets_a_sentence(guess: str) -> None:
    """And never anything else."""
    claims = predictions.parse(TIMES, guess)
    if isinstance(claims, str):
        assert claims.endswith(".")
    else:
        assert all(claim is None or isinstance(claim, Claim) for claim in claims)
        predictions.compare(claims, seen(1.0, math.nan, None))


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        ("1, 1, 3.8", ["as predicted", "2 times as much as predicted", "5 % more than predicted"]),
        ("0, 8, 2 to 3", ["off by 1", "1/4 of what was predicted", "1 above the range"]),
        ("1, 1.8, 5", ["as predicted", "11 % more than predicted", "20 % less than predicted"]),
        ("stays", ["", "it becomes 2 times as much", "it becomes 2 times as much"]),
    ],
)
def test_how_far_off_a_prediction_was_is_said(guess: str, words: list[str]) -> None:
    claims = predictions.parse(TIMES, guess)
    assert not isinstance(claims, str)
    judged = predictions.compare(claims, seen(1.0, 2.0, 4.0))
    assert [each.words for each in judged] == words


def test_numbers_are_shown_as_people_read_them() -> None:
    assert [show(0.1), show(1234.5), show(90_000.0), show(2, "GB"), show(2, "(a number)")] == [
        "0.1",
        "1234",
        "90,000",
        "2 GB",
        "2",
    ]


def prediction(code: str, guess: str) -> dict[str, object]:
    return {"kind": "prediction", "code": code, "guess": guess, "reason": "so"}


def test_a_prediction_can_be_changed_until_the_result_was_seen_and_only_added_to_after_it() -> None:
    results = predictions.as_results(seen(1.0, math.inf, None))
    events = [
        prediction("a", "1, 1, 1"),
        prediction("a", "doubles"),
        {"kind": "run", "outcome": "failed"},
        {"kind": "result", "code": "a", "results": results},
        prediction("a", "1, 2, 4"),
        {"kind": "result", "code": "a", "results": []},
        prediction("b", "stays"),
    ]
    first, second = predictions.rounds(events)
    assert (first.guess, [each["guess"] for each in first.additions]) == ("doubles", ["1, 2, 4"])
    assert first.observations == seen(1.0, math.inf, None)
    assert (second.code, second.guess, second.observations) == ("b", "stays", ())


def test_an_edited_note_costs_only_itself() -> None:
    event = {"kind": "result", "code": "a", "results": [[1, 2.0, ""], "?", [2], [2, "soon", "?"], [4, {}, ""]]}
    (only,) = predictions.rounds([event])
    assert [each.result for each in only.observations] == [2.0, None, None]

"""What ran out of time on a busy machine gets a second look with more of it; a quiet machine's verdict stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import patience
from grader.records import Exercise, Limits

EXERCISE = Exercise("sample", 1, "S", 10, 1, 1, Path(), Path(), limits=Limits(timeout_s=2.0))


def limits_seen(times: float, *, enough_s: float) -> list[float]:
    """Return the limits of each look at something that takes `enough_s`, on a machine that is `times` slower."""
    seen: list[float] = []

    def look(exercise: Exercise) -> bool:
        seen.append(exercise.limits.timeout_s)
        return exercise.limits.timeout_s >= enough_s

    patience.with_patience(look, EXERCISE, lambda done: not done, lambda: times)
    return seen


@pytest.mark.parametrize(
    ("times", "enough_s", "looks"),
    [(1.0, 1.0, [2.0]), (3.0, 1.0, [2.0]), (1.0, 5.0, [2.0]), (3.0, 5.0, [2.0, 6.0]), (99.0, 5.0, [2.0, 20.0])],
)
def test_only_time_that_ran_out_on_a_busy_machine_is_given_again(
    times: float, enough_s: float, looks: list[float]
) -> None:
    assert limits_seen(times, enough_s=enough_s) == looks


def test_slowness_is_at_least_that_of_a_quiet_machine() -> None:
    assert patience.slowness() > 0.9

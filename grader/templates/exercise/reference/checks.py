"""Hidden checks of new_exercise, in teaching order."""

# WRITE: checks of your own: shape, one rank, two ranks, uneven sizes, dtype, bytes and rounds, no deadlock.

from __future__ import annotations

import numpy as np

from grader.judging import Student, assert_close, check


@check(hints=("How many values are there, if there is one?",))
def check_one_value_is_its_own_mean(student: Student, rng: np.random.Generator) -> None:
    """One value is its own mean."""
    values = rng.normal(size=1)
    result = student.call("mean_of", values)
    assert_close(result.value, float(values[0]), "mean of one value")


@check(hints=("What turns a sum into a mean?", "A mean must not grow when the same values come twice."))
def check_several_values_share_one_mean(student: Student, rng: np.random.Generator) -> None:
    """Several values have the mean that their sum gives, shared among them."""
    values = rng.exponential(size=5)
    result = student.call("mean_of", values)
    expected = float(np.mean(values))
    assert_close(result.value, expected, "mean of 5 values", mistakes={"the sum of the values": float(values.sum())})


@check(hints=("Which line writes into the array that it was given?",), judged_by="observation")
def check_the_values_are_not_changed(student: Student, rng: np.random.Generator) -> None:
    """The values that were given are still the same afterwards."""
    values = rng.normal(size=4)
    result = student.call("harness.values_afterwards", values)
    assert_close(result.value, values, "values after the call")

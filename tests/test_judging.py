"""Comparisons look at type, dtype and shape before values, and say the first thing that is wrong in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.judging import assert_close, assert_equal, tensor
from grader.records import Opaque


def complaint(actual: Any, expected: Any, **options: Any) -> str:
    """Return what assert_close says, or "" if it accepts."""
    try:
        assert_close(actual, expected, "rank 0: gradient", **options)
    except AssertionError as error:
        return str(error)
    return ""


def test_the_first_wrong_index_and_the_known_mistake_are_named() -> None:
    """The message of design section 6, word for word."""
    said = complaint(
        tensor([4.0, 8.0], "float32"),
        tensor([2.0, 4.0], "float32"),
        mistakes={"the sum over the 2 ranks": np.array([4.0, 8.0])},
    )
    assert said == (
        "rank 0: gradient[0] is 4.0, expected 2.0 (2 of 2 differ, largest difference 4.0; shape [2], float32)\n"
        "that is the sum over the 2 ranks"
    )


@pytest.mark.parametrize(
    ("actual", "expected", "fragment"),
    [
        (np.empty(0), np.array([1.0]), "has shape [0], expected [1]"),
        (np.float64(1.0), np.array([1.0, 1.0]), "is the float64 1.0, expected a tensor or array of shape [2]"),
        (np.ones(2, np.float16), np.ones(2), "has dtype float16, expected float64"),
        (np.ones((2, 1)), np.ones((1, 2)), "has shape [2, 1], expected [1, 2]"),
        (np.array([np.nan]), np.array([1.0]), "is nan, expected 1.0"),
        (np.array([np.inf]), np.array([1.0]), "is inf, expected 1.0"),
        (np.array([1.0]), np.array([np.nan]), "is 1.0, expected nan"),
        (None, np.array([1.0]), "is None, expected"),
        (Opaque("solution.E"), 1.0, "expected a number"),
        (True, 1.0, "is True, expected a number"),
        ("1.0", 1.0, "is the string '1.0', expected a number"),
        ([1.0], [1.0, 2.0], "has 1 items, expected 2"),
        ({"a": 1.0}, {"b": 1.0}, "has the keys ['a'], expected ['b']"),
        (np.array([1.0]), tensor([1.0]), "expected a tensor"),
    ],
)
def test_what_merely_broadcasts_or_coerces_is_refused(actual: Any, expected: Any, fragment: str) -> None:
    """Each of these passes some common `allclose`."""
    assert fragment in complaint(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (tensor([1.0, 2.0]), np.array([1.0, 2.0])),
        (tensor(3.0), 3.0),
        (np.float64(3.0), 3.0),
        (3, 3.0),
        (np.array([np.nan, -np.inf]), np.array([np.nan, -np.inf])),
        ((1.0, [2.0]), [1.0, [2.0]]),
        ({"a": tensor([1.0])}, {"a": np.array([1.0])}),
        (np.empty((0, 3)), np.empty((0, 3))),
        (np.array([1.0 + 1e-12, 1e3]), np.array([1.0, 1e3])),
    ],
)
def test_a_right_value_is_accepted_in_each_legal_form(actual: Any, expected: Any) -> None:
    """The tolerance is relative to the largest magnitude expected."""
    assert complaint(actual, expected) == ""


def test_numbers_that_look_alike_are_shown_in_full() -> None:
    """ "is 1.0, expected 1.0" would help nobody."""
    assert "is 1.000000001, expected 1.0" in complaint(1.000000001, 1.0)


def test_equality_is_exact_in_type_and_value() -> None:
    """A bool is no int, a float no int; numpy's integers count as integers."""
    assert_equal(np.int64(3), 3, "count")
    assert_equal((1, "a"), [1, "a"], "list")
    for wrong in (3.0, True, "3", None, 4):
        with pytest.raises(AssertionError, match="count is"):
            assert_equal(wrong, 3, "count")
    with pytest.raises(AssertionError, match="that is the number of ranks"):
        assert_equal(2, 1, "count", mistakes={"the number of ranks": 2})


def test_a_bfloat16_tensor_is_rounded_to_nearest_even() -> None:
    """The same sixteen bits as torch's own conversion."""
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    expected = torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    assert (tensor(values, "bfloat16").array == expected).all()

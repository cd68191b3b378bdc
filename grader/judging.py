"""What a check is made of: its promise and hints, and comparisons that look at type, dtype and shape before values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from grader.errors import StudentFailure
from grader.records import Group, JudgedBy, RankResult, Tensor
from grader.student import Student

__all__ = [
    "Group",
    "RankResult",
    "Student",
    "StudentFailure",
    "Tensor",
    "assert_close",
    "assert_equal",
    "check",
    "describe",
    "tensor",
]

Array = np.ndarray[Any, Any]
Check = TypeVar("Check", bound=Callable[..., None])


def check(
    *,
    hints: tuple[str, ...],  # noqa: ARG001  # all three are read from the file's text, by catalog.promises
    judged_by: JudgedBy = "value",  # noqa: ARG001
    guards: str = "",  # noqa: ARG001
) -> Callable[[Check], Check]:
    """Mark a function as a check; its docstring is the promise, `hints` go from the most general to the most specific.

    All three arguments must be literals: `hint` and `audit` read them without running the file.
    """

    def mark(function: Check) -> Check:
        return function

    return mark


def tensor(values: Any, dtype: str | None = None, requires_grad: bool = False) -> Tensor:
    """Return what arrives in a rank as a torch tensor of `dtype` (torch's name; by default that of `values`)."""
    array = np.asarray(values)
    name = dtype or array.dtype.name
    if name != "bfloat16":
        return Tensor(array.astype(name), name, requires_grad)
    bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000  # to nearest, ties to even
    return Tensor(rounded.astype("<u4").view("<f4").reshape(array.shape), name, requires_grad)


def describe(value: Any) -> str:
    """Return what a value is, in a few words: "a float32 tensor of shape [2, 3]", "a list of 4", "None"."""
    if isinstance(value, Tensor):
        return f"a {value.subclass or value.dtype} tensor of shape {list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"a {value.dtype.name} array of shape {list(value.shape)}"
    if type(value) in (list, tuple, dict):
        return f"a {type(value).__name__} of {len(value)}"
    if type(value) in (str, bytes):
        return f"the {'string' if type(value) is str else 'bytes'} {value[:60]!r}"
    if value is None or isinstance(value, (bool, np.bool_)):
        return str(value)
    return f"the {type(value).__name__} {show(value)}" if isinstance(value, (int, float, complex, np.generic)) else "…"


def show(number: Any) -> str:
    """Return a number with up to six significant digits and without numpy's type names."""
    if isinstance(number, (bool, np.bool_, int, np.integer)):
        return str(number)[:40]
    if isinstance(number, (float, np.floating)):
        text = f"{float(number):.6g}"
        return text if any(c in text for c in ".en") else f"{text}.0"
    return str(number)[:60]


@dataclass(frozen=True)
class Comparison:
    """Hold how two values are compared and what is said if they differ."""

    what: str
    rtol: float
    atol: float | None
    dtype: str | None
    unit: str
    mistakes: Mapping[str, Any]

    def fail(self, sentence: str) -> NoReturn:
        """Fail the check with a sentence that begins with what was compared."""
        raise AssertionError(f"{self.what} {sentence}")


def assert_close(
    actual: Any,
    expected: Any,
    what: str,
    *,
    rtol: float = 1e-10,
    atol: float | None = None,
    dtype: str | None = None,
    unit: str = "",
    mistakes: Mapping[str, Any] | None = None,
) -> None:
    """Fail unless `actual` equals `expected` in type, dtype, shape and, within a tolerance, in every value.

    The tolerance is `atol`, or else `rtol` times the largest magnitude in `expected`. `expected` as a `tensor(...)`
    demands a tensor; as an array it accepts a tensor or an array of the same dtype; as a float also a 0-d one. Lists,
    tuples and dictionaries are compared part by part. NaN is accepted only where `expected` has it. `mistakes` maps a
    sentence part ("the sum over the 2 ranks") to the value that a known misconception gives.
    """
    compare(actual, expected, Comparison(what, rtol, atol, dtype, unit, mistakes or {}))


def compare(actual: Any, expected: Any, how: Comparison) -> None:
    """Compare one value or, part by part, a container."""
    if type(expected) in (list, tuple, dict):
        compare_container(actual, expected, how)
    elif isinstance(expected, (Tensor, np.ndarray)):
        compare_array(actual, expected, how)
    else:
        compare_number(actual, expected, how)


def compare_container(actual: Any, expected: Any, how: Comparison) -> None:
    """Compare a list, tuple or dictionary: the same kind, the same length or keys, then each part."""
    sequence = type(expected) is not dict
    if type(actual) is not type(expected) and not (sequence and type(actual) in (list, tuple)):
        how.fail(f"is {describe(actual)}, expected a {type(expected).__name__} of {len(expected)}.")
    if sequence and len(actual) != len(expected):
        how.fail(f"has {len(actual)} items, expected {len(expected)}.")
    if not sequence and actual.keys() != expected.keys():
        how.fail(f"has the keys {sorted(map(str, actual))[:8]}, expected {sorted(map(str, expected))[:8]}.")
    for key in range(len(expected)) if sequence else expected:
        part = {name: value[key] for name, value in how.mistakes.items() if type(value) in (list, tuple, dict)}
        inner = Comparison(f"{how.what}[{key!r}]", how.rtol, how.atol, how.dtype, how.unit, part)
        compare(actual[key], expected[key], inner)


def compare_number(actual: Any, expected: Any, how: Comparison) -> None:
    """Compare a single number; a 0-d array or tensor counts as one."""
    if isinstance(actual, (Tensor, np.ndarray)) and actual.shape == ():
        actual = (actual.array if isinstance(actual, Tensor) else actual)[()]
    if isinstance(actual, (bool, np.bool_)) or not isinstance(actual, (int, float, complex, np.number)):
        how.fail(f"is {describe(actual)}, expected a number.")
    compare_array(np.asarray(actual), np.asarray(expected), how, scalar=True)


def compare_array(actual: Any, expected: Tensor | Array, how: Comparison, *, scalar: bool = False) -> None:
    """Compare dtype, then shape, then values."""
    want = expected.array if isinstance(expected, Tensor) else expected
    if isinstance(actual, Tensor) and actual.subclass:
        how.fail(f"is a {actual.subclass}, a subclass of Tensor, expected a plain tensor.")
    if not isinstance(actual, Tensor if isinstance(expected, Tensor) else (Tensor, np.ndarray)):
        noun = "tensor" if isinstance(expected, Tensor) else "tensor or array"
        how.fail(f"is {describe(actual)}, expected a {noun} of shape {list(want.shape)}.")
    got = actual.array if isinstance(actual, Tensor) else actual
    dtype = how.dtype or (expected.dtype if isinstance(expected, Tensor) else want.dtype.name)
    got_dtype = actual.dtype if isinstance(actual, Tensor) else got.dtype.name
    if not scalar and got_dtype != dtype:
        how.fail(f"has dtype {got_dtype}, expected {dtype} (shape {list(got.shape)}).")
    if got.shape != want.shape:
        how.fail(f"has shape {list(got.shape)}, expected {list(want.shape)}.")
    compare_values(got, want, dtype, how, scalar=scalar)


def compare_values(got: Array, want: Array, dtype: str, how: Comparison, *, scalar: bool) -> None:
    """Compare values of equal shape; name the first that differs, how many do, and a mistake that they equal."""
    tolerance = tolerance_of(want, how)
    wrong = differs(got, want, tolerance)
    if not wrong.any():
        return
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    unit = f" {how.unit}" if how.unit else ""
    place = "" if not first else f"[{', '.join(map(str, first))}]"
    sentence = f"is {show(got[first])}{unit}, expected {show(want[first])}{unit}"
    if show(got[first]) == show(want[first]):
        sentence = f"is {got[first]!s}{unit}, expected {want[first]!s}{unit}"
    if not scalar:
        finite = np.abs(np.where(wrong, widen(got) - widen(want), 0))
        largest = show(float(np.nanmax(finite))) if np.isfinite(finite).any() else "not finite"
        sentence += f" ({wrong.sum()} of {wrong.size} differ, largest difference {largest}; "
        sentence += f"shape {list(got.shape)}, {dtype})"
    raise AssertionError(f"{how.what}{place} {sentence}{mistaken(got, how) or explained(got[first])}")


def mistaken(got: Array, how: Comparison) -> str:
    """Return the line that names the known mistake whose value `got` equals, if there is one."""
    for name, value in how.mistakes.items():
        array = np.asarray(value.array if isinstance(value, Tensor) else value)
        if array.shape == got.shape and not differs(got, array, tolerance_of(array, how)).any():
            return f"\nthat is {name}"
    return ""


def explained(number: Any) -> str:
    """Return the line that says where an unexpected NaN may come from."""
    if not np.isnan(widen(np.asarray(number))):
        return ""
    return "\non simulated ranks a buffer reads NaN until its operation has been waited for"


def widen(array: Array) -> Array:
    """Return values in the widest type of their kind, so that differences do not overflow."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def differs(got: Array, want: Array, tolerance: float) -> Array:
    """Return where two arrays of one shape differ by more than `tolerance`; NaN equals only NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(widen(got) - widen(want)) <= tolerance
    same = (got == want) | (np.isnan(widen(got)) & np.isnan(widen(want)))
    return np.asarray(~(near | same))


def tolerance_of(want: Array, how: Comparison) -> float:
    """Return the absolute tolerance: the given one, or relative to the largest finite magnitude expected."""
    if how.atol is not None:
        return how.atol
    finite = np.abs(widen(want))[np.isfinite(widen(want))]
    return how.rtol * float(finite.max()) if finite.size else 0.0


def assert_equal(actual: Any, expected: Any, what: str, *, mistakes: Mapping[str, Any] | None = None) -> None:
    """Fail unless `actual` is exactly `expected`: the same type and value, part by part in containers."""
    how = Comparison(what, 0.0, 0.0, None, "", mistakes or {})
    if isinstance(expected, (Tensor, np.ndarray)):
        compare_array(actual, expected, how)
        return
    if type(expected) in (list, tuple) and type(actual) in (list, tuple):
        if len(actual) != len(expected):
            how.fail(f"has {len(actual)} items, expected {len(expected)}.{named(actual, how)}")
        for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
            parts = {name: value[index] for name, value in how.mistakes.items() if type(value) in (list, tuple)}
            assert_equal(left, right, f"{what}[{index}]", mistakes=parts)
        return
    plain = actual.item() if isinstance(actual, np.generic) else actual
    if type(plain) is not type(expected) or not same(plain, expected):
        words = show if type(plain) is type(expected) in (int, float, bool) else describe
        how.fail(f"is {words(plain)}, expected {words(expected)}.{named(plain, how)}")


def named(actual: Any, how: Comparison) -> str:
    """Return the line that names the known mistake that `actual` is, if there is one."""
    return next((f"\nthat is {name}" for name, value in how.mistakes.items() if same(actual, value)), "")


def same(left: Any, right: Any) -> bool:
    """Return whether two plain values are equal; NaN equals NaN."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and bool(left == right)

"""Read numbers, ranges and units as people write them: "120 GB", "~2.5", "1/8", "4 to 6 ms", "at most 3"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_DIGITS = r"(?:\d{1,3}(?:[,_ ]\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = rf"[-+−]?(?:{_DIGITS})(?:e[-+]?\d+)?"
_AMOUNT = re.compile(rf"({_NUMBER})(?:\s*/\s*(\d+(?:\.\d+)?))?\s*(.*)", re.IGNORECASE | re.DOTALL)
_BETWEEN = re.compile(
    rf"(?:between|from)?\s*({_NUMBER})\s*(.*?)\s*(?:\.\.+|…|–|-|\bto\b|\band\b)\s*({_NUMBER}.*)", re.I | re.S
)
_ABOUT = re.compile(r"(?:about|around|roughly|approximately|approx\.?|ca\.?|~|≈|=)\s*", re.IGNORECASE)
_LEAST = re.compile(r"(?:more than|greater than|at least|above|over|>=?|≥)\s*", re.IGNORECASE)
_MOST = re.compile(r"(?:less than|fewer than|smaller than|at most|up to|below|under|<=?|≤)\s*", re.IGNORECASE)

_TIMES = {"times", "time", "x", "×", "fold"}
_WORDS = {"percent": "%", "per cent": "%", "seconds": "s", "second": "s", "sec": "s", "bytes": "b", "byte": "b"}
_WORDS |= {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns", "flops": "flop"}
_COUNTS = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "billion": 1e9}
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_PREFIXES |= {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}


@dataclass(frozen=True)
class Span:
    """Hold the lowest and the highest amount that were meant, both the same for a plain number."""

    low: float
    high: float


def read_span(words: str, unit: str) -> Span | str:
    """Return what `words` mean in `unit`, or a sentence if they mean no amount."""
    words = _ABOUT.sub("", words.strip(), count=1) if _ABOUT.match(words.strip()) else words.strip()
    for bound, make in ((_LEAST, _at_least), (_MOST, _at_most)):
        if found := bound.match(words):
            amount = read_amount(words[found.end() :], unit)
            return amount if isinstance(amount, str) else make(amount)
    if found := _BETWEEN.fullmatch(words):
        high_words = found[3]
        unit_words = found[2] or _unit_words(high_words)
        return _between(read_amount(f"{found[1]} {unit_words}", unit), read_amount(high_words, unit))
    amount = read_amount(words, unit)
    return amount if isinstance(amount, str) else Span(amount, amount)


def read_amount(words: str, unit: str) -> float | str:
    """Return a number in `unit`, converted where it was given in a related one, or a sentence if it is none."""
    found = _AMOUNT.fullmatch(words.strip())
    if found is None:
        return f"`{words.strip()[:40]}` is no number."
    divisor = float(found[2]) if found[2] else 1.0
    if divisor == 0:
        return f"`{words.strip()[:40]}` divides by zero."
    number = float(re.sub("[,_ ]", "", found[1]).replace("−", "-")) / divisor
    factor = _factor(" ".join(found[3].split()).lower().rstrip("."), unit.lower())
    if factor is None:
        return f"`{found[3].strip()[:40]}` does not turn into what is asked for: {unit}. A plain number is understood."
    return number * factor


def show(number: float, unit: str = "") -> str:
    """Return a number as people read it, with its unit unless that is a remark in brackets."""
    digits = f"{number:.4g}" if abs(number) < 1e4 else f"{number:,.0f}" if abs(number) < 1e9 else f"{number:.4g}"
    return digits if not unit or unit.startswith("(") else f"{digits} {unit}"


def _at_least(amount: float) -> Span:
    return Span(amount, math.inf)


def _at_most(amount: float) -> Span:
    return Span(-math.inf, amount)


def _between(low: float | str, high: float | str) -> Span | str:
    if isinstance(low, str) or isinstance(high, str):
        return low if isinstance(low, str) else str(high)
    return Span(min(low, high), max(low, high))


def _unit_words(words: str) -> str:
    found = _AMOUNT.fullmatch(words)
    return found[3] if found else ""


def _factor(given: str, wanted: str) -> float | None:
    """Return by what a number in `given` is multiplied to be one in `wanted`, None where that makes no sense."""
    if not given or given == wanted:
        return 1.0
    ours, theirs = _physical(wanted), _physical(given)
    if ours and theirs:
        return theirs[1] / ours[1] if ours[0] == theirs[0] else None
    first, *rest = given.split(" ")
    if first in _COUNTS:
        rest_factor = _factor(" ".join(rest), wanted)
        return None if rest_factor is None else _COUNTS[first] * rest_factor
    asked = _words(wanted)
    if _WORDS.get(given, first) == "%":
        return 1.0 if "%" in asked else 0.01 if "time" in asked else None
    return 1.0 if first in _TIMES or asked & _words(given) else None


def _physical(unit: str) -> tuple[str, float] | None:
    """Return the base of a unit of bytes, seconds or operations, and how many of it the unit is."""
    unit = _WORDS.get(unit, unit)
    found = re.fullmatch(r"(ki|mi|gi|ti|[nuµμkmgtp]?)(b|s|flop)", unit)
    if found is None:
        return None
    milli = found[1] == "m" and found[2] == "s"
    return found[2], 1e-3 if milli else _PREFIXES[found[1]]


def _words(unit: str) -> set[str]:
    """Return the words of a unit, in the singular."""
    return {word.removesuffix("s") if len(word) > 2 else word for word in re.findall(r"[\w'µ%-]+", unit)}

"""Draw as SVG: a canvas, scales, axes with units, labels that do not hide each other; theme.css has the colours."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 680
LINE_HEIGHT = 16
Format = Callable[[float], str]


def tag(name: str, content: str = "", **attributes: object) -> str:
    """Return one element; `class_` and `font_size` become `class` and `font-size`."""
    pairs = (
        (key.rstrip("_").replace("_", "-"), _short(value)) for key, value in attributes.items() if value is not None
    )
    written = "".join(f' {key}="{escape(value)}"' for key, value in pairs)
    return f"<{name}{written}>{content}</{name}>"


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, words: object, class_: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    return tag("text", escape(str(words)), x=x, y=y, class_=f"pg-text {class_}".strip(), text_anchor=anchor)


def figure(parts: Iterable[str], height: float, title: str) -> str:
    """Return a drawing that scales with the page and says what it is to those who do not see it."""
    inner = tag("title", escape(title)) + "".join(parts)
    return tag("svg", inner, viewBox=f"0 0 {WIDTH} {height:.0f}", class_="pg-figure", role="img", aria_label=title)


def number(value: float) -> str:
    """Return a number with about three digits, as people write it."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    size = abs(value)
    if size and not 1e-3 <= size < 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{'' if mantissa == '1' else mantissa + '·'}10{_raised(int(exponent))}"
    digits = 0 if size >= 100 or float(value).is_integer() else 1 if size >= 10 else 2 if size >= 1 else 3
    written = f"{value:,.{digits}f}".replace(",", "\u202f")
    return written.rstrip("0").rstrip(".") if "." in written else written


def _raised(exponent: int) -> str:
    return str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def halves(value: float) -> str:
    """Return a number below one as a fraction: 1/16."""
    return number(value) if value >= 1 else f"1/{number(1 / value)}"


def power(value: float) -> str:
    """Return a power of ten: 10⁶."""
    return f"10{_raised(round(math.log10(value)))}"


@dataclass(frozen=True)
class Scale:
    """Map values to places on the canvas, evenly or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value; outside the range, that of its nearer end."""
        value = min(max(value, self.low), self.high)
        at, low, high = (math.log(each) if self.log else each for each in (value, self.low, self.high))
        return self.start + (self.end - self.start) * (at - low) / ((high - low) or 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values, few enough to be labelled."""
        if self.log:
            first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
            if last - first <= 2:  # too few powers of ten to read values by
                found = [part * 10.0**exponent for exponent in range(first - 1, last + 1) for part in (1, 2, 5)]
                return [each for each in found if self.low * 0.999 <= each <= self.high * 1.001]
            every = max(1, math.ceil((last - first) / most))
            found = [10.0**exponent for exponent in range(first, last + 1, every)]
            return [each for each in found if self.low * 0.999 <= each <= self.high * 1.001]
        step = _round_step((self.high - self.low) / most)
        count = math.floor(self.high / step + 1e-9) - math.ceil(self.low / step - 1e-9)
        return [step * (math.ceil(self.low / step - 1e-9) + i) for i in range(count + 1)]


def _round_step(rough: float) -> float:
    size = 10.0 ** math.floor(math.log10(rough or 1))
    return next(factor * size for factor in (1, 2, 5, 10) if factor * size >= rough * 0.999)


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places near the wanted ones, in the same order, none nearer to another than `gap`."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    places: list[float] = list(wanted)
    for before, after in itertools.pairwise(order):
        places[after] = max(places[after], places[before] + gap)
    overhang = max(0.0, places[order[-1]] - high) if order else 0.0
    limit = math.inf
    for i in reversed(order):
        places[i] = max(low, min(places[i] - (overhang if limit is math.inf else 0), limit - gap))
        limit = places[i]
    return places


@dataclass(frozen=True)
class Frame:
    """Hold the two scales of a chart and draw its axes."""

    x: Scale
    y: Scale
    x_title: str
    y_title: str
    x_format: Format = number
    y_format: Format = number
    x_ticks: Sequence[float] | None = None
    y_ticks: Sequence[float] | None = None

    def draw(self) -> str:
        """Return grid lines, tick labels and the axes' titles with their units."""
        left, right, top, bottom = self.x.start, self.x.end, self.y.end, self.y.start
        parts = [text(left - 40, top - 14, self.y_title, "pg-axis")]
        for value in self.y.ticks(5) if self.y_ticks is None else self.y_ticks:
            y = self.y(value)
            parts.append(tag("line", x1=left, x2=right, y1=y, y2=y, class_="pg-grid"))
            parts.append(text(left - 8, y + 4, self.y_format(value), "pg-tick", "end"))
        for value in self.x.ticks() if self.x_ticks is None else self.x_ticks:
            x = self.x(value)
            parts.append(tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="pg-grid"))
            parts.append(text(x, bottom + 19, self.x_format(value), "pg-tick", "middle"))
        parts.append(tag("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="pg-base"))
        parts.append(text(right, bottom + 38, self.x_title, "pg-axis", "end"))
        return "".join(parts)

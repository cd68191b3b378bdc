"""Draw curves over one axis: each with its label at its end, areas below, bands and marks where they mean something."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.playground.drawing import LINE_HEIGHT, WIDTH, Format, Frame, Scale, apart, figure, number, tag, text

LEFT, TOP, BOTTOM = 62, 38, 48
WILD = 8  # a learner's values beyond so many times the largest of the truth are drawn at the edge


@dataclass(frozen=True)
class Line:
    """Draw one curve; `look` is truth, yours, ideal or one of a to f."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    look: str = "truth"
    dots: bool = False


@dataclass(frozen=True)
class Area:
    """Fill between two curves, with a label inside where there is room."""

    label: str
    xs: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    look: str


@dataclass(frozen=True)
class Mark:
    """Point at one place."""

    label: str
    x: float
    y: float
    look: str = "truth"


@dataclass(frozen=True)
class Axis:
    """Name an axis with its unit, and bound it."""

    title: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    format: Format = number
    ticks: Sequence[float] | None = None


def chart(
    title: str,
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    *,
    areas: Sequence[Area] = (),
    marks: Sequence[Mark] = (),
    below: tuple[float, str] | None = None,  # shade what lies below this value, and say why
    height: int = 330,
    margin: int = 190,  # for the labels on the right
) -> str:
    """Return a chart."""
    widths = [value for xs in (*(line.xs for line in lines), *(area.xs for area in areas)) for value in xs]
    heights = [(line.look, value) for line in lines for value in line.ys]
    heights += [("area", value) for area in areas for value in area.high]
    frame = Frame(
        _scale(x, widths, LEFT, WIDTH - margin),
        _scale(y, _seen(heights), height - BOTTOM, TOP),
        x.title,
        y.title,
        x.format,
        y.format,
        x.ticks,
        y.ticks,
    )
    parts = [_band(frame, *below)] if below else []
    parts += [_area(frame, area) for area in areas]
    parts += [frame.draw(), *(_line(frame, line) for line in lines), _labels(frame, lines)]
    parts += [_mark(frame, mark, i) for i, mark in enumerate(marks)]
    return figure(parts, height, title)


def _seen(looks_and_values: Sequence[tuple[str, float]]) -> list[float]:
    """Return the values that bound an axis: a learner's wild ones shall not flatten the truth."""
    ours = [value for look, value in looks_and_values if look != "yours" and math.isfinite(value)]
    most = WILD * max(ours, default=math.inf)
    return ours + [value for look, value in looks_and_values if look == "yours" and value <= most]


def _scale(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    finite = [value for value in values if math.isfinite(value) and (value > 0 or not axis.log)] or [1.0]
    low = axis.low if axis.low is not None else min(finite) if axis.log else min(0.0, *finite)
    high = axis.high if axis.high is not None else max(finite) * (1 if start < end else 1.04)
    return Scale(low, max(high, low * 1.001 if axis.log else low + 1e-12), start, end, axis.log)


def _path(frame: Frame, xs: Sequence[float], ys: Sequence[float]) -> str:
    inside = [(frame.x(a), frame.y(b)) for a, b in zip(xs, ys, strict=True) if math.isfinite(b)]
    return " ".join(f"{'L' if i else 'M'}{a:.1f} {b:.1f}" for i, (a, b) in enumerate(inside))


def _line(frame: Frame, line: Line) -> str:
    drawn = tag("path", d=_path(frame, line.xs, line.ys), class_=f"pg-line pg-{line.look}")
    shown = zip(line.xs, line.ys, strict=True) if line.dots else ()
    return drawn + "".join(
        tag("circle", cx=frame.x(a), cy=frame.y(b), r=3.2, class_=f"pg-dot pg-{line.look}")
        for a, b in shown
        if math.isfinite(b)
    )


def _area(frame: Frame, area: Area) -> str:
    back = _path(frame, list(reversed(area.xs)), list(reversed(area.low)))
    outline = f"{_path(frame, area.xs, area.high)} {back.replace('M', 'L', 1)} Z"
    # a label stands where the area is highest, if it has room there
    place = max(range(len(area.xs)), key=lambda i: area.high[i] - area.low[i])
    tall = frame.y(area.low[place]) - frame.y(area.high[place])
    drawn = tag("path", d=outline, class_=f"pg-area pg-{area.look}")
    if tall < LINE_HEIGHT:
        return drawn
    middle, x = (frame.y(area.low[place]) + frame.y(area.high[place])) / 2 + 5, frame.x(area.xs[place])
    at_right = x > (frame.x.start + frame.x.end) / 2
    return drawn + text(x + (-8 if at_right else 8), middle, area.label, "pg-inside", "end" if at_right else "start")


def _labels(frame: Frame, lines: Sequence[Line]) -> str:
    ends = [_end(line) for line in lines]
    labelled = [(line, end) for line, end in zip(lines, ends, strict=True) if end is not None and line.label]
    places = apart([frame.y(end[1]) + 4 for _, end in labelled], LINE_HEIGHT, TOP, frame.y.start + 4)
    return "".join(_label(frame, line, end[1], y) for (line, end), y in zip(labelled, places, strict=True))


def _label(frame: Frame, line: Line, value: float, y: float) -> str:
    """Return a label with a piece of its line, joined to the curve's end."""
    x, look = frame.x.end, f"pg-line pg-{line.look}"
    lead = tag("path", d=f"M{x + 2:.1f} {frame.y(value):.1f} L{x + 10:.1f} {y - 4:.1f}", class_="pg-grid")
    sample = tag("line", x1=x + 12, x2=x + 34, y1=y - 4, y2=y - 4, class_=look)
    words = f"{line.label} (beyond)" if value > frame.y.high * 1.001 else line.label
    return lead + sample + text(x + 40, y, words, f"pg-label pg-{line.look}")


def _end(line: Line) -> tuple[float, float] | None:
    return next(((a, b) for a, b in reversed(list(zip(line.xs, line.ys, strict=True))) if math.isfinite(b)), None)


def _mark(frame: Frame, mark: Mark, place: int) -> str:
    """Return a circle with its label above it, the learner's below; further ones higher, so that all can be read."""
    x, y = frame.x(mark.x), frame.y(mark.y)
    end = x > frame.x.end - 90
    shape = tag("circle", cx=x, cy=y, r=6.5, class_=f"pg-mark pg-{mark.look}")
    return shape + text(
        x + (-10 if end else 10),
        y + (20 if mark.look == "yours" else -9 - 17 * place),
        mark.label,
        f"pg-label pg-{mark.look}",
        "end" if end else "start",
    )


def _band(frame: Frame, value: float, words: str) -> str:
    top, bottom = frame.y(value), frame.y.start
    if bottom - top < 1:
        return ""
    shade = tag(
        "rect", x=frame.x.start, y=top, width=frame.x.end - frame.x.start, height=bottom - top, class_="pg-band"
    )
    return shade + (text(frame.x.start + 8, bottom - 8, words, "pg-inside") if bottom - top > LINE_HEIGHT else "")

"""Draw with blocks: stacked bars, grids of cells, and schedules over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from grader.playground.drawing import WIDTH, Format, Frame, Scale, figure, number, tag, text

ROW, GAP = 26, 7
CHAR = 7.2  # the width of a letter, roughly: a label stands only where it fits


@dataclass(frozen=True)
class Bar:
    """Stack parts (label, amount, look) from the left; `yours` is where a learner's function says the end is."""

    label: str
    parts: Sequence[tuple[str, float, str]]
    yours: float | None = None
    note: str = ""


def bars(
    title: str,
    rows: Sequence[Bar],
    axis: str,
    *,
    limit: tuple[float, str] | None = None,
    left: int = 120,
    most: float | None = None,
    form: Format = number,
) -> str:
    """Return horizontal stacked bars over one axis, perhaps with a limit that they should not cross."""
    totals = [sum(amount for _, amount, _ in bar.parts) for bar in rows]
    wild = 3 * max([*totals, 1e-12])  # a learner's wild numbers shall not flatten the truth
    yours = [bar.yours for bar in rows if bar.yours is not None and 0 <= bar.yours <= wild]
    end = most or max([*totals, *yours, limit[0] * 1.05 if limit and limit[0] <= wild else 0, 1e-12])
    top = 62 if limit else 40
    height = top + len(rows) * (ROW + GAP) + 50
    x = Scale(0, end, left, WIDTH - (140 if yours else 70))
    parts = [Frame(x, Scale(0, 1, height - 46, top - 8), axis, "", form, lambda _: "", y_ticks=()).draw()]
    for i, (bar, total) in enumerate(zip(rows, totals, strict=True)):
        parts.append(_bar(bar, total, x, top + i * (ROW + GAP), form))
    if limit and limit[0] <= end:
        at = x(limit[0])
        parts.append(tag("line", x1=at, x2=at, y1=top - 14, y2=height - 46, class_="pg-limit"))
        parts.append(text(at, top - 20, limit[1], "pg-label pg-yours", "end" if at > WIDTH / 2 else "start"))
    return figure(parts, height, title)


def _bar(bar: Bar, total: float, x: Scale, y: float, form: Format) -> str:
    drawn, start = [text(x.start - 8, y + ROW / 2 + 5, bar.label, "", "end")], 0.0
    for label, amount, look in bar.parts:
        width = x(start + amount) - x(start)
        if width > 0.3:
            drawn.append(tag("rect", x=x(start), y=y, width=width, height=ROW, class_=f"pg-box pg-{look}"))
        if width > len(label) * CHAR:
            drawn.append(text(x(start) + width / 2, y + ROW / 2 + 4, label, f"pg-on pg-{look}", "middle"))
        start += amount
    note = bar.note or form(total)
    end = x(total) + 12 + len(note) * CHAR
    drawn.append(text(x(total) + 9, y + ROW / 2 + 5, note, "pg-label"))
    if bar.yours is not None and math.isfinite(bar.yours):
        at = x(bar.yours)
        drawn.append(text(end + 4, y + ROW / 2 + 5, f"yours {form(bar.yours)}", "pg-label pg-yours"))
        drawn.append(tag("line", x1=at, x2=at, y1=y - 4, y2=y + ROW + 4, class_="pg-line pg-yours"))
        drawn.append(tag("circle", cx=at, cy=y + ROW / 2, r=4.5, class_="pg-dot pg-yours"))
    return "".join(drawn)


@dataclass(frozen=True)
class Cell:
    """Hold one cell: up to two lines of text, a strength from 0 to 1 (None: crossed out), and perhaps a ring."""

    lines: tuple[str, ...]
    strength: float | None
    ring: str = ""  # truth or yours
    link: str = ""
    words: str = ""  # for a pointer that rests on it, and for those who do not see it


def grid(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[int, int], Cell],
    axes: tuple[str, str],
) -> str:
    """Return a heat map with the value in every cell; `axes` name the rows and the columns."""
    left, top, tall = 96, 58, 46
    wide = min(96.0, (WIDTH - left - 8) / max(1, len(columns)))
    parts = [text(left, 18, axes[1], "pg-axis"), text(4, top - 12, axes[0], "pg-axis")]
    parts += [text(left + (i + 0.5) * wide, top - 12, name, "pg-tick", "middle") for i, name in enumerate(columns)]
    parts += [text(left - 10, top + (i + 0.5) * tall + 5, name, "pg-tick", "end") for i, name in enumerate(rows)]
    rings = []
    for (row, column), cell in sorted(cells.items()):
        box: dict[str, Any] = {
            "x": left + column * wide + 1.5,
            "y": top + row * tall + 1.5,
            "width": wide - 3,
            "height": tall - 3,
        }
        drawn = _cell(cell, box)
        parts.append(tag("a", drawn, href=cell.link) if cell.link else drawn)
        if cell.ring:
            rings.append(tag("rect", **{**box, "rx": 5}, class_=f"pg-around pg-{cell.ring}"))
    return figure([*parts, *rings], top + len(rows) * tall + 10, title)


def _cell(cell: Cell, box: Mapping[str, Any]) -> str:
    x, y, width, height = box["x"], box["y"], box["width"], box["height"]
    hint = tag("title", escape(cell.words)) if cell.words else ""
    if cell.strength is None:
        drawn = tag("rect", hint, **box, rx=4, class_="pg-box pg-none")
        drawn += tag(
            "path",
            d=f"M{x + 5} {y + 5} L{x + width - 5} {y + height - 5} M{x + width - 5} {y + 5} L{x + 5} {y + height - 5}",
            class_="pg-cross",
        )
    else:
        drawn = tag("rect", **box, rx=4, class_="pg-box pg-none")
        drawn += tag(
            "rect",
            hint,
            **box,
            rx=4,
            class_="pg-heat",
            fill_opacity=round(0.08 + 0.72 * min(1.0, max(0.0, cell.strength)), 3),
        )
    first = y + height / 2 + 5 - 8 * (len(cell.lines) - 1)
    look = "pg-cell pg-strong" if (cell.strength or 0) > 0.55 else "pg-cell"
    return drawn + "".join(
        text(x + width / 2, first + 16 * i, line, look, "middle") for i, line in enumerate(cell.lines)
    )


@dataclass(frozen=True)
class Block:
    """Hold a piece of work on one row of a schedule."""

    row: int
    start: float
    end: float
    label: str
    look: str
    words: str = ""


def schedule(
    title: str,
    rows: Sequence[str],
    blocks: Sequence[Block],
    axis: str,
    *,
    end: float | None = None,
    waits: Mapping[int, tuple[float, str]] | None = None,
) -> str:
    """Return a Gantt chart; `waits` says from when on a row stands for ever, and what for."""
    left, top, tall = 24 + max(map(len, rows), default=0) * 7, 26, 30
    last = end or max((block.end for block in blocks), default=1.0) or 1.0
    room = 0 if not waits else 176
    x = Scale(0, last, left, WIDTH - 14 - room)
    height = top + len(rows) * tall + 46
    frame = Frame(x, Scale(0, 1, height - 42, top - 6), axis, "", y_ticks=())
    parts = [frame.draw()]
    for i, name in enumerate(rows):
        y = top + i * tall
        parts.append(text(left - 8, y + tall / 2 + 4, name, "", "end"))
        parts.append(tag("rect", x=left, y=y + 2, width=x.end - left, height=tall - 5, class_="pg-box pg-idle"))
    parts += [_block(block, x, top + block.row * tall + 2, tall - 5) for block in blocks]
    for row, (since, words) in (waits or {}).items():
        y = top + row * tall + 2
        parts.append(tag("rect", x=x(since), y=y, width=max(4.0, x.end - x(since)), height=tall - 5, class_="pg-stuck"))
        parts.append(text(x.end + 8, y + tall / 2 + 2, words, "pg-label pg-yours"))
    return figure(parts, height, title)


def _block(block: Block, x: Scale, y: float, tall: float) -> str:
    width = max(0.6, x(block.end) - x(block.start))
    drawn = tag(
        "rect",
        tag("title", escape(block.words or block.label)),
        x=x(block.start),
        y=y,
        width=width,
        height=tall,
        class_=f"pg-box pg-{block.look}",
    )
    if width < len(block.label) * CHAR - 1:
        return drawn
    return drawn + text(x(block.start) + width / 2, y + tall / 2 + 4, block.label, f"pg-on pg-{block.look}", "middle")


def ring_of_waits(title: str, waits: Sequence[tuple[int, int | None, str]]) -> str:
    """Draw who waits for whom: a circle a rank, an arrow to the rank that it waits for."""
    ranks = sorted({rank for rank, _, _ in waits} | {other for _, other, _ in waits if other is not None})
    step = min(150.0, (WIDTH - 120) / max(1, len(ranks) - 1))
    at = {rank: 60 + i * step for i, rank in enumerate(ranks)}
    parts = []
    for rank, other, words in waits:
        if other is None:
            continue
        a, b, up = at[rank], at[other], other > rank
        y, bend = (62, 18) if up else (98, 142)
        side = 1 if b > a else -1
        parts.append(
            tag(
                "path",
                d=f"M{a + 8 * side:.1f} {y} Q{(a + b) / 2:.1f} {bend} {b - 10 * side:.1f} {y}",
                class_="pg-arrow pg-yours",
                marker_end="url(#pg-head)",
            )
        )
        parts.append(text((a + b) / 2, 30 if up else 142, words, "pg-label pg-yours", "middle"))
    for rank in ranks:
        parts.append(tag("circle", cx=at[rank], cy=80, r=22, class_="pg-node"))
        parts.append(text(at[rank], 85, f"rank {rank}", "pg-cell", "middle"))
    return figure([HEAD, *parts], 156, title)


HEAD = tag(
    "defs",
    tag(
        "marker",
        tag("path", d="M0 0 L10 5 L0 10 z", class_="pg-head pg-yours"),
        id="pg-head",
        viewBox="0 0 10 10",
        refX=8,
        refY=5,
        orient="auto",
        markerWidth=12,
        markerHeight=12,
        markerUnits="userSpaceOnUse",
    ),
)


@dataclass(frozen=True)
class Arrow:
    """Draw a vector from the origin."""

    label: str
    x: float
    y: float
    look: str


def arrows(title: str, vectors: Sequence[Arrow], unit: str) -> str:
    """Return vectors from one origin, with equal scales on both axes."""
    side, middle = 320, 168
    reach = max([math.hypot(each.x, each.y) for each in vectors if each.look != "yours"] or [1.0]) * 1.05
    scale = (side / 2 - 14) / reach
    parts = [
        tag("circle", cx=middle, cy=side / 2, r=scale * reach / 1.05 * part, class_="pg-round") for part in (0.5, 1)
    ]
    parts += [tag("line", x1=middle - side / 2, x2=middle + side / 2, y1=side / 2, y2=side / 2, class_="pg-grid")]
    parts += [tag("line", x1=middle, x2=middle, y1=0, y2=side, class_="pg-grid")]
    for i, each in enumerate(vectors):
        size = math.hypot(each.x, each.y)
        short = min(1.0, 1.15 * reach / size) if size else 1.0
        x, y = middle + each.x * scale * short, side / 2 - each.y * scale * short
        parts.append(tag("line", x1=middle, y1=side / 2, x2=x, y2=y, class_=f"pg-arrow pg-{each.look}"))
        parts.append(_head(x, y, math.atan2(-each.y, each.x), each.look))
        row = 30 + i * 24
        parts.append(tag("line", x1=346, x2=376, y1=row, y2=row, class_=f"pg-arrow pg-{each.look}"))
        parts.append(
            text(384, row + 5, f"{each.label}  ({number(each.x)}, {number(each.y)}) {unit}", f"pg-label pg-{each.look}")
        )
    return figure(parts, side, title)


def _head(x: float, y: float, angle: float, look: str) -> str:
    corners = [(x + 9 * math.cos(angle + turn), y + 9 * math.sin(angle + turn)) for turn in (0, 2.5, -2.5)]
    return tag("path", d="M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + " Z", class_=f"pg-head pg-{look}")

"""The interactive pages: guess first, then see the truth, and your own function beside it.

A chapter's app declares its panels with what is exported here; nothing of marimo is imported before a page needs it.
"""

from __future__ import annotations

from grader.playground.blocks import Arrow, Bar, Block, Cell, arrows, bars, grid, ring_of_waits, schedule
from grader.playground.drawing import halves, number, power
from grader.playground.lines import Area, Axis, Line, Mark, chart
from grader.playground.panels import Choice, Panel, Picture, Question, Slider, Table

__all__ = [
    "Area",
    "Arrow",
    "Axis",
    "Bar",
    "Block",
    "Cell",
    "Choice",
    "Line",
    "Mark",
    "Panel",
    "Picture",
    "Question",
    "Slider",
    "Table",
    "arrows",
    "bars",
    "chart",
    "grid",
    "halves",
    "number",
    "power",
    "ring_of_waits",
    "schedule",
]

"""The interactive pages: guess first, then see the truth, and your own function beside it.

A chapter's app declares its panels with what is exported here; nothing of marimo is imported before a page needs it.
"""

from __future__ import annotations

from grader.playground.drawing import number, power
from grader.playground.lines import Area, Axis, Line, Mark, chart
from grader.playground.panels import Choice, Panel, Picture, Question, Slider, Table

__all__ = [
    "Area",
    "Axis",
    "Choice",
    "Line",
    "Mark",
    "Panel",
    "Picture",
    "Question",
    "Slider",
    "Table",
    "chart",
    "number",
    "power",
]

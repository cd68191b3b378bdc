"""Read the style of the pages."""

from __future__ import annotations

from pathlib import Path

STYLE = Path(__file__).with_name("theme.css").read_text("utf-8")

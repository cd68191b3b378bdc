"""What a panel is made of: plain frozen data, without a browser and without marimo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.student import Student

Value = float | str
Settings = Mapping[str, Value]  # control -> what it is set to
Numbers = Mapping[str, Any]  # plain lists, numbers and texts: what a function of truth.py returns
Truth = Callable[[str, Settings], Numbers]  # the name of a model in truth.py, and what to set it to


@dataclass(frozen=True)
class Slider:
    """Choose a number by dragging or typing; whole numbers if all three bounds are."""

    name: str  # in the address, with its unit: link_ms
    label: str
    unit: str
    value: float
    least: float
    most: float
    step: float = 1

    def read(self, text: str) -> float | None:
        """Return the number that an address gives, within the bounds; None if it is none."""
        try:
            number = float(text)
        except ValueError:
            return None
        if not self.least <= number <= self.most:  # NaN, too
            return None
        number = self.least + round((number - self.least) / self.step) * self.step
        return self.whole(min(number, self.most))

    def whole(self, number: float) -> float:
        """Return an int where only whole numbers can be chosen."""
        are_whole = all(float(each).is_integer() for each in (self.least, self.step, self.value))
        return int(number) if are_whole else float(f"{number:.10g}")


@dataclass(frozen=True)
class Choice:
    """Choose one of a few words."""

    name: str
    label: str
    options: tuple[str, ...]
    value: str

    def read(self, text: str) -> str | None:
        """Return the option that an address names, None if it is none."""
        return text if text in self.options else None


Control = Slider | Choice


@dataclass(frozen=True)
class Question:
    """Ask for one number before the picture is shown; `at` overrides the controls' first values."""

    text: str
    unit: str
    answer: Callable[[Numbers], float]  # picks it out of the truth
    at: Settings
    quantity: str


@dataclass(frozen=True)
class Table:
    """Hold a picture's values for those who read rather than see."""

    headers: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Picture:
    """Hold what a panel shows: drawings with their captions, one sentence, the values."""

    figures: Sequence[tuple[str, str]]  # (svg, caption)
    reading: str
    table: Table


@dataclass(frozen=True)
class Panel:
    """Declare one panel of a chapter."""

    name: str  # in the address: ?panel=workers
    title: str
    exercise: str  # the slug whose file draws a curve
    story: str
    controls: tuple[Control, ...]
    question: Question
    truth: str  # a function of the chapter's truth.py
    draw: Callable[[Settings, Numbers, Any], Picture]  # the last one is what `yours` returned, or None
    yours: Callable[[Student, Settings, Truth], Any] | None = None  # asks the learner's file
    yours_is: str = ""  # what is drawn of the learner's file, in words
    yours_needs: tuple[str, ...] | None = None  # the controls that change its answer, by default all

    @property
    def first(self) -> dict[str, Value]:
        """Return what the controls are set to before anybody touches them."""
        return {control.name: control.value for control in self.controls}

    def settings(self, address: Mapping[str, str]) -> dict[str, Value]:
        """Return the controls' values with those of an address, as far as they make sense."""
        found = {
            control.name: control.read(address[control.name]) for control in self.controls if control.name in address
        }
        return self.first | {name: value for name, value in found.items() if value is not None}

    @property
    def asked(self) -> dict[str, Value]:
        """Return the settings that the question is about."""
        return self.first | dict(self.question.at)

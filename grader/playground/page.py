"""Build a chapter's page in marimo: ask first, then show the picture with the learner's own curve in it.

An app has three cells for it: the head with question and controls, the verdict, and the picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import marimo as mo

from grader import catalog
from grader.playground import guesses, learner
from grader.playground.drawing import number
from grader.playground.panels import Choice, Control, Panel, Picture, Table, Value
from grader.playground.theme import STYLE
from grader.playground.truths import open_truth
from grader.records import Exercise


class Page:
    """Show one panel of a chapter at a time: the one that the address names, else the first."""

    def __init__(self, file: str, panels: Sequence[Panel]) -> None:
        """Take the chapter from the folder of `file` and the settings from the address."""
        self.folder, self.panels = Path(file).resolve().parent, panels
        self.address = {key: str(value) for key, value in mo.query_params().to_dict().items()}
        named = [panel for panel in panels if panel.name == self.address.get("panel")]
        self.panel = (named or list(panels))[0]
        course = catalog.load_course(catalog.find_root())
        self.exercise = next(each for each in course if each.slug == self.panel.exercise)
        self.truth = open_truth(catalog.find_root(), self.folder.name)
        self.past = guesses.last(self.exercise, self.panel)

    # --- the cells ----------------------------------------------------------------------------------------------------

    def head(self, question: Any) -> Any:
        """Return the links to all panels, the panel's story, and below them the question."""
        story = mo.md(self.panel.story).text
        title, link = f"<h1>{escape(self.panel.title)}</h1>", _exercise_link(self.exercise)
        return mo.vstack([html(STYLE_TAG, _navigation(self), title, story, link), question])

    def question(self) -> Any:
        """Return the form that asks for a guess and a reason."""
        asked = self.panel.question
        parts = {
            "guess": mo.ui.text(label=f"My guess ({asked.unit})"),
            "reason": mo.ui.text(
                label="because", placeholder="one line, for your notes", full_width=True, max_length=300
            ),
        }
        words = f"**Predict first.** {asked.text}\n\n{{guess}}\n\n{{reason}}"
        return mo.md(words).batch(**parts).form(submit_button_label="Show me", validate=_has_guess, bordered=True)

    def controls(self) -> Any:
        """Return the controls, set as the address says."""
        settings = self.panel.settings(self.address) if set(self.address) - {"panel"} else self.panel.asked
        return mo.ui.dictionary({each.name: _widget(each, settings[each.name]) for each in self.panel.controls})

    def saved(self) -> Any:
        """Return what makes the cells that read it run again when the learner's file is saved."""
        return mo.watch.file(self.exercise.starter_path)

    def verdict(self, submitted: Mapping[str, Any] | None) -> Any:
        """Keep the guess, and say how far off it was; without one there is nothing to see yet."""
        if submitted is None and self.past is None:
            mo.stop(True, html("<p>The picture appears when you have guessed. A wrong guess teaches most.</p>"))
        result = self.panel.question.answer(self.truth(self.panel.truth, self.panel.asked))
        complaint = None
        if submitted is not None:
            self.past, complaint = guesses.keep(self.exercise, self.panel, submitted, result)
        assert self.past is not None
        return html(_verdict(self.panel, self.past, result), f"<p>{escape(complaint)}</p>" if complaint else "")

    def layout(self, controls: Any, _verdict: object) -> Any:
        """Return the controls in two columns, once there is a verdict."""
        widgets = list(controls.elements.values())
        half = (len(widgets) + 1) // 2
        return mo.hstack([mo.vstack(part, gap=0.3) for part in (widgets[:half], widgets[half:])], widths="equal", gap=2)

    def picture(self, chosen: Mapping[str, Value], _verdict: object, _saved: object) -> Any:
        """Draw the truth and the learner's own curve at these settings, and put them into the address."""
        settings = self.panel.settings({name: str(value) for name, value in chosen.items()})
        self._put_into_address(settings)
        truth, answer = self.truth(self.panel.truth, settings), self.yours(settings)
        try:
            drawn, sentence = self.panel.draw(settings, truth, answer.value), answer.sentence
        except learner.FORM_ERRORS:
            if answer.value is None:
                raise
            drawn, sentence = self.panel.draw(settings, truth, None), learner.OTHER_FORM
        return html(*_yours(self.panel, self.exercise, sentence), *_picture(drawn))

    # --- how ----------------------------------------------------------------------------------------------------------

    def yours(self, settings: Mapping[str, Value]) -> learner.Answer:
        """Return what the learner's file answers at these settings."""
        ask = self.panel.yours
        if ask is None:
            return learner.Answer()
        needs = self.panel.yours_needs
        key = (self.panel.name, *(item for item in settings.items() if needs is None or item[0] in needs))
        return learner.ask(self.exercise, lambda student: ask(student, settings, self.truth), key)

    def _put_into_address(self, settings: Mapping[str, Value]) -> None:
        now = {"panel": self.panel.name} | {name: f"{value}" for name, value in settings.items()}
        for name, value in now.items():
            if self.address.get(name) != value:
                mo.query_params().set(name, value)
        self.address = now


STYLE_TAG = f"<style>{STYLE}</style>"


def html(*parts: str) -> Any:
    """Return markup of ours as an output."""
    return mo.Html(f'<div class="pg">{"".join(parts)}</div>')


def _has_guess(value: object) -> str | None:
    if isinstance(value, Mapping) and guesses.read(str(value.get("guess", ""))) is not None:
        return None
    return "Give a number first, such as 328 or 1.5e6: any is better than none."


def _widget(control: Control, value: Value) -> Any:
    label = escape(control.label)
    if isinstance(control, Choice):
        return mo.ui.dropdown(list(control.options), value=str(value), label=label)
    return mo.ui.slider(
        control.least,
        control.most,
        control.step,
        value=float(value),
        label=label if control.unit == control.label else f"{label} ({control.unit})",
        include_input=True,
        debounce=True,
        full_width=True,
    )


def _navigation(page: Page) -> str:
    here = page.panel.name
    links = [
        f'<a href="?panel={panel.name}"{" aria-current=page" if panel.name == here else ""}>{escape(panel.title)}</a>'
        for panel in page.panels
    ]
    numbers = sorted(int(file.parent.name[2:].split("_")[0]) for file in page.folder.parent.glob("ch*_*/playground.py"))
    mine = int(page.folder.name[2:].split("_")[0])
    chapters = [
        f"<strong>chapter {n}</strong>" if n == mine else f'<a href="../ch{n}/">chapter {n}</a>' for n in numbers
    ]
    chapters.append('<a href="../trace">timeline of a run</a>')
    return _bar("chapters", chapters) + _bar("panels", links)


def _bar(name: str, links: Iterable[str]) -> str:
    return f'<nav class="pg-nav" aria-label="{name}">{"".join(links)}</nav>'


def _exercise_link(exercise: Exercise) -> str:
    return (
        f'<p>Exercise: <a href="../exercise/{exercise.slug}">{escape(exercise.title)}</a> '
        f"(<code>nox -s check -- {exercise.slug}</code>)</p>"
    )


def _verdict(panel: Panel, past: guesses.Guess, result: float) -> str:
    off = guesses.how_far(past.guess, result)
    unit = escape(panel.question.unit)
    guessed, seen = (f"<strong>{number(value)} {unit}</strong>" for value in (past.guess, result))
    words = f"You guessed {guessed}; it is {seen}: {off}."
    reason = f"<p>Your reason: “{escape(past.reason)}”</p>" if past.reason else ""
    near = "" if off.startswith("right") else " pg-off"
    return f'<div class="pg-note{near}" role="status"><p>{escape(panel.question.text)}</p><p>{words}</p>{reason}</div>'


def _yours(panel: Panel, exercise: Exercise, sentence: str) -> Iterable[str]:
    if sentence:
        words = f"<strong>{exercise.slug}.py</strong> has no curve here: {escape(sentence)}"
        yield f'<p class="pg-yours-note" role="status">{words}</p>'
    elif panel.yours_is:
        yield f"<p>Dashed: {_with_code(panel.yours_is)}, from <code>{exercise.slug}.py</code> as it is saved now.</p>"


def _with_code(words: str) -> str:
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def _picture(picture: Picture) -> Iterable[str]:
    yield f'<p class="pg-reading" role="status">{escape(picture.reading)}</p>'
    for svg, caption in picture.figures:
        yield f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
    yield _table(picture.table)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in table.headers)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(_cell(each))}</td>' for each in row)}</tr>" for row in table.rows)
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<details><summary>The same as a table</summary><div class="pg-scroll" tabindex="0">{whole}</div></details>'


def _cell(value: object) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)

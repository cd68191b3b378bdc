"""Pages without a browser: settings from an address, guesses in the notes, curves of a learner's file."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.etree import ElementTree as ET

import pytest

from chapters import APPS, ROOT, many, panels, truth_of
from grader import catalog, notes, predictions
from grader.launch import Launcher
from grader.playground import guesses, learner
from grader.playground.drawing import apart, number
from grader.playground.panels import Panel, Picture, Truth
from grader.records import Exercise

COURSE = {exercise.slug: exercise for exercise in catalog.load_course(ROOT)}
PANELS = [pytest.param(panel, truth_of(app), id=panel.name) for app in APPS for panel in panels(app)]
every_panel = pytest.mark.parametrize(("panel", "truth"), PANELS)


@pytest.fixture(autouse=True)
def one_launcher(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let pages start ranks as all tests do, and forget what files answered."""
    monkeypatch.setattr(learner, "_launcher", lambda: launcher)
    learner._remembered.clear()
    return


def copy_of(slug: str, folder: Path, *, repaired: bool) -> Exercise:
    """Return an exercise whose file, in a folder of its own, is the starter or the reference."""
    exercise = COURSE[slug]
    shutil.copy(exercise.reference_path if repaired else exercise.starter_path, folder / f"{slug}.py")
    return replace(exercise, student_dir=folder)


def answer(panel: Panel, truth: Truth, exercise: Exercise, settings: Any) -> learner.Answer:
    """Ask a file what a page would ask."""
    assert panel.yours is not None
    ask = panel.yours
    return learner.ask(exercise, lambda student: ask(student, settings, truth), tuple(settings.items()))


def texts(picture: Picture) -> str:
    """Return all that a picture says in words, having parsed its drawings."""
    drawings = [ET.fromstring(svg) for svg, _ in picture.figures]
    return " ".join([picture.reading, *("".join(drawing.itertext()) for drawing in drawings)])


@every_panel
def test_a_repaired_file_draws_the_truth_and_a_starter_does_not(panel: Panel, truth: Truth, tmp_path: Path) -> None:
    shown = truth(panel.truth, panel.asked)
    right = answer(panel, truth, copy_of(panel.exercise, tmp_path, repaired=True), panel.asked)
    assert right.sentence == ""
    starter = answer(panel, truth, copy_of(panel.exercise, tmp_path, repaired=False), panel.asked)
    drawn = [texts(panel.draw(panel.asked, shown, each.value)) for each in (right, starter)]
    assert drawn[0] != drawn[1]


@every_panel
def test_every_setting_can_be_drawn(panel: Panel, truth: Truth) -> None:
    for settings in many(panel, seed=1, times=40):
        picture = panel.draw(settings, truth(panel.truth, settings), None)
        assert "nan" not in " ".join(svg for svg, _ in picture.figures).lower().replace("<title>", "")
        assert all(len(row) == len(picture.table.headers) for row in picture.table.rows)
        texts(picture)


@every_panel
def test_an_address_sets_controls_and_nonsense_in_it_is_ignored(panel: Panel, truth: Truth) -> None:
    assert truth(panel.truth, panel.settings({}))
    for settings in many(panel, seed=2, times=5):
        assert panel.settings({name: str(value) for name, value in settings.items()}) == settings
    wild = {
        control.name: word
        for control, word in zip(panel.controls, ["nan", "1e99", "-inf", "<b>", ""] * 3, strict=False)
    }
    assert panel.settings(wild) == panel.first


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def schedule(rank, ranks, micro_batches):\n    return 1 / 0\n", "schedule raised ZeroDivisionError"),
        ("def schedule(rank ranks", "one_forward_one_backward.py has a syntax error"),
        ("def shedule(rank, ranks, micro_batches): ...\n", "Did you mean shedule?"),
        ("def schedule(rank, ranks, micro_batches):\n    return 3\n", "another form than the contract says"),
        ("def schedule(rank, ranks, micro_batches):\n    return ['0B0']\n", "stands before its forward 0F0"),
        ("import os\ndef schedule(rank, ranks, micro_batches):\n    os._exit(0)\n", "ended the Python process"),
    ],
)
def test_what_is_wrong_with_a_file_is_a_sentence_on_the_page(source: str, words: str, tmp_path: Path) -> None:
    (panel, truth) = next(param.values for param in PANELS if param.id == "pipeline")
    exercise = replace(COURSE["one_forward_one_backward"], student_dir=tmp_path)
    (tmp_path / "one_forward_one_backward.py").write_text(source)
    assert words in answer(panel, truth, exercise, panel.asked).sentence


def test_a_missing_file_is_a_sentence_too(tmp_path: Path) -> None:
    exercise = replace(COURSE["one_forward_one_backward"], student_dir=tmp_path)
    assert "one_forward_one_backward.py" in learner.ask(exercise, lambda _: None, ()).sentence


def test_a_guess_is_kept_as_predict_keeps_it(tmp_path: Path) -> None:
    panel = next(param.values[0] for param in PANELS if param.id == "workers")
    exercise = replace(COURSE[panel.exercise], student_dir=tmp_path)
    assert guesses.last(exercise, panel) is None
    guess, complaint = guesses.keep(exercise, panel, {"guess": " 1/4 ", "reason": "shared"}, 327.5)
    assert (guess.guess, complaint) == (0.25, None)
    said, seen = notes.read(tmp_path)[0]
    assert (said["kind"], said["guess"], said["reason"], said["code"]) == (
        "prediction",
        "0.25",
        "shared",
        "panel:workers",
    )
    assert (seen["kind"], seen["results"], seen["code"]) == ("result", [[0.0, 327.5, ""]], "panel:workers")
    assert guesses.last(exercise, panel) == guess
    assert predictions.rounds(notes.read(tmp_path)[0]) == ()  # the exercise's own experiment asks something else


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("328", 328.0),
        ("1.5e6", 1500000.0),
        ("1/8", 0.125),
        ("25 %", 25.0),
        ("1,000", 1000.0),
        ("−3", -3.0),
        ("about 3", None),
        ("", None),
        ("1/0", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_numbers_are_read_as_people_type_them(words: str, value: float | None) -> None:
    assert guesses.read(words) == value


@pytest.mark.parametrize(
    ("guess", "result", "words"),
    [
        (1, 1, "right"),
        (8, 1, "8 times too high"),
        (110, 100, "10 % too high"),
        (30, 100, "3.33 times too low"),
        (-1, 1, "off by 2"),
    ],
)
def test_how_far_off_is_said_in_words(guess: float, result: float, words: str) -> None:
    assert guesses.how_far(guess, result) == words


def test_labels_keep_apart_in_their_order() -> None:
    places = apart([10, 11, 300, 12], 16, 0, 310)
    assert sorted(places) == [places[0], places[1], places[3], places[2]]
    assert all(b - a >= 16 for a, b in zip(sorted(places), sorted(places)[1:], strict=False))


def test_numbers_are_written_with_three_digits() -> None:
    written = [number(each) for each in (0, 0.1234, 1.5, 12.34, 1234.5, 5.75e23, 1e-4, float("nan"))]
    assert written == ["0", "0.123", "1.5", "12.3", "1\u202f234", "5.75·10²³", "10⁻⁴", "–"]


@pytest.mark.parametrize("app", APPS, ids=lambda app: app.parent.name)
def test_pages_hold_no_formula_of_the_truth(app: Path) -> None:
    """An app asks truth.py by name, and imports nothing of reference/."""
    source = app.read_text("utf-8")
    assert "reference" not in source
    assert not re.search(r"truth\.py|open_truth", source)


@every_panel
def test_the_exercise_leads_to_its_panel_with_the_controls_set(panel: Panel, truth: Truth) -> None:
    assert truth
    text = (COURSE[panel.exercise].student_dir / "README.md").read_text("utf-8")
    (link,) = re.findall(r"\((http://127\.0\.0\.1:\d+/[^)]*)\)", text)
    address = dict(parse_qsl(urlsplit(link).query))
    assert address.pop("panel") == panel.name
    assert address.keys() == panel.first.keys()
    assert panel.settings(address) == panel.asked

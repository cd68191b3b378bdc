"""Tell from the notes what a student did with an exercise: runs, hints, predictions, the mechanism named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader import catalog, notes, predictions
from grader.predictions import Judged, Round
from grader.quantities import show
from grader.records import Exercise, Experiment, Outcome
from grader.report.text import Line, Look, count, paragraph

Events = Sequence[notes.Event]


def summary(exercise: Exercise, events: Events, look: Look) -> str:
    """Return what else than the outcome is worth a few words in a list."""
    hints = sum(taken - 1 for taken in notes.hints_by_check(events).values())
    facts = [count(hints, "hint")] if hints else []
    if exercise.experiment is not None:
        facts += [_how_predicted(exercise.experiment, each) for each in predictions.rounds(events)[:1]]
    if notes.knows_mechanism(events):
        facts.append("mechanism named")
    return f" {look.dot} ".join(filter(None, facts))


def whole(exercise: Exercise, events: Events, look: Look) -> list[Line]:
    """Return all that the notes hold of an exercise, part by part."""
    runs = [event for event in events if event["kind"] == "run"]
    lines = paragraph(_runs(runs), look)
    lines += [(), *hints(exercise, events, look)] if notes.hints_by_check(events) else []
    if exercise.experiment is not None and (story := predictions.rounds(events)):
        lines += [(), *paragraph(exercise.experiment.question, look, "bold")]
        lines += [line for each in story for line in round_of(exercise.experiment, each, look)]
    if tries := notes.mechanism_tries(events):
        wrong = sum(not event["right"] for event in tries)
        named = "The mechanism was named" if notes.knows_mechanism(events) else "The mechanism was not named yet"
        lines += [(), *paragraph(f"{named}; {count(wrong, 'other choice')} before.", look)]
    return lines


def hints(exercise: Exercise, events: Events, look: Look) -> list[Line]:
    """Return the hints that were taken, those of each check below its promise; the first came with the report."""
    taken = notes.hints_by_check(events)
    lines: list[Line] = []
    for promise in catalog.promises(exercise):
        if promise.name not in taken:
            continue
        all_hints = (*promise.hints, catalog.mechanism(exercise).last_hint)
        lines += paragraph(promise.sentence, look, "bold")
        for number, hint in enumerate(all_hints[: taken[promise.name]], 1):
            lines += paragraph(f"hint {number} of {len(all_hints)}: {hint}", look, "cyan")
    return lines or paragraph("No hint was asked for here; the first of each check comes with the report.", look)


def round_of(experiment: Experiment, story: Round, look: Look) -> list[Line]:
    """Return one version of the code: what was predicted and why, what came out, how far off, what was added."""
    lines: list[Line] = []
    for event in story.predictions:
        lines += _said("you predicted" if event is story.predictions[-1] else "before that", event, look)
    lines += table(experiment, story, look) if story.observations else paragraph("not run yet", look, "dim")
    for event in story.additions:
        lines += _said("added after the result", event, look)
    return lines


def table(experiment: Experiment, story: Round, look: Look) -> list[Line]:
    """Return prediction and result side by side, a line for each value of the control."""
    judged = judge(experiment, story)
    rows = [[experiment.control, "predicted", experiment.quantity, ""]]
    for each in judged:
        seen = each.observation
        result = "no result" if seen.result is None else show(seen.result, experiment.unit)
        rows.append([show(seen.value), each.claim.words if each.claim else "", result, each.words])
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines: list[Line] = []
    for row, verdict in zip(rows, [None, *(each.is_right for each in judged)], strict=True):
        cells = "   ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=False))
        sign = look.sign(Outcome.PASSED if verdict else Outcome.FAILED) if verdict is not None else (" ", "")
        lines.append(((f"  {cells}   ", "" if lines else "dim"), sign, (f" {row[3]}", "")))
    failures = dict.fromkeys(each.observation.failure for each in judged if each.observation.failure)
    return [*lines, *(line for failure in failures for line in paragraph(failure, look))]


def judge(experiment: Experiment, story: Round) -> tuple[Judged, ...]:
    """Return prediction and result of one round, compared."""
    claims = predictions.parse(experiment, story.guess) if story.guess else ""
    nothing = (None,) * len(story.observations)
    return predictions.compare(nothing if isinstance(claims, str) else claims, story.observations)


def _how_predicted(experiment: Experiment, first: Round) -> str:
    """Return how good the first prediction was, which is the one that tells what somebody believed."""
    verdicts = [each.is_right for each in judge(experiment, first) if each.is_right is not None]
    return f"predicted {sum(verdicts)} of {len(verdicts)}" if verdicts else "prediction open" if first.guess else ""


def _said(label: str, event: Mapping[str, Any], look: Look) -> list[Line]:
    reason = f", because {event['reason']}" if event["reason"] else ""
    return paragraph(f"{label}: {event['guess']}{reason}" if event["guess"] else f"{label}: {event['reason']}", look)


def _runs(runs: Events) -> str:
    if not runs:
        return "Not checked yet."
    passed = next((place for place, run in enumerate(runs, 1) if run["outcome"] == Outcome.PASSED.value), None)
    words = f"Checked {count(len(runs), 'time')}"
    return f"{words}, passed at number {passed}." if passed else f"{words}, not passed yet."

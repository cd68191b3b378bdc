"""Take a prediction and a reason, then run the experiment with the student's own code, and say how far off it was."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path

from grader import catalog, experiments, files_in, notes, predictions
from grader.errors import UsageError
from grader.launch import open_launcher
from grader.predictions import Round
from grader.records import Exercise, Experiment
from grader.report import story
from grader.report.terminal import Screen
from grader.report.text import Line, Look, command, paragraph

SEED = 0  # the same for everyone, so that a result looks the same tomorrow


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("slug", metavar="SLUG", help="the exercise")
    parser.add_argument("--guess", metavar="WORDS", help='what you predict, such as "1, 2, 4" or "it doubles"')
    parser.add_argument("--reason", metavar="WORDS", help="why, in a sentence")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Show the experiment, take what is predicted, run it and show both; 1 if nothing was predicted."""
    (exercise,) = catalog.select(catalog.load_course(root), [arguments.slug])
    if exercise.experiment is None:
        raise UsageError(f"{exercise.slug} has no experiment to predict. `nox -s list` shows all exercises.")
    screen = Screen(sys.stdout, sys.stderr)
    source = files_in.take(exercise.student_dir, exercise.starter_path.name)
    events, complaints = notes.of(exercise)
    rounds = {each.code: each for each in predictions.rounds(events)}
    this = rounds.pop(experiments.code_of(source), Round(experiments.code_of(source)))
    screen.show(_opening(exercise.experiment, list(rounds.values()), screen.look))
    screen.show([line for complaint in complaints for line in paragraph(complaint, screen.look, "yellow")])
    said = arguments.guess, arguments.reason
    if this.observations:
        return _add(exercise, this, said, source, screen)
    if not _predict(exercise, exercise.experiment, this, said, source, screen):
        return 1
    _observe(exercise, source, root, screen)
    screen.show(_outcome(exercise, exercise.experiment, experiments.code_of(source), screen.look))
    return 0


def _opening(experiment: Experiment, earlier: list[Round], look: Look) -> list[Line]:
    """Return the experiment, and what was predicted and seen with earlier versions of the code."""
    values = ", ".join(f"{value:g}" for value in experiment.values)
    lines = paragraph(experiment.question, look, "bold")
    lines += paragraph(f"control: {experiment.control} = {values}     quantity: {experiment.quantity}", look)
    for each in earlier:
        heading = [(), (("  with an earlier version of your code", "dim"),)]
        lines += [*heading, *story.round_of(experiment, each, look)]
    return [*lines, ()]


def _predict(
    exercise: Exercise,
    experiment: Experiment,
    this: Round,
    said: tuple[str | None, str | None],
    source: bytes,
    screen: Screen,
) -> bool:
    """Take a prediction and its reason and keep them; return False if there is none."""
    guess, reason = said
    if guess is None and reason is None and this.guess:
        screen.show(paragraph(f"You predicted: {this.guess}. Enter keeps it.", screen.look))

    def understand_guess(answer: str) -> tuple[str] | str:
        if not answer and this.guess:
            return (this.guess,)
        claims = predictions.parse(experiment, answer)
        return claims if isinstance(claims, str) else (answer,)

    taken = _given(guess, understand_guess, "--guess") or screen.ask("your prediction", understand_guess)
    if taken is None:
        return False
    if taken[0] == this.guess and not guess:
        return True
    because = _given(reason, _understand_reason, "--reason") or screen.ask("because", _understand_reason)
    if because is None:
        return False
    _complain(experiments.note_prediction(exercise, taken[0], because[0], source))
    return True


def _given(words: str | None, understand: object, option: str) -> tuple[str] | None:
    """Return what an option says, or None where it was not given; nonsense in it is wrong usage."""
    if words is None:
        return None
    assert callable(understand), "one of the two functions here"
    understood = understand(words.strip())
    if isinstance(understood, str):
        raise UsageError(f"{option}: {understood}")
    return (words.strip(),)


def _understand_reason(answer: str) -> tuple[str] | str:
    if len(answer) > predictions.MAX_CHARACTERS:
        return f"At most {predictions.MAX_CHARACTERS} characters, please: the one thing that decides it."
    return (answer,) if answer else "A few words on why: a right number without a reason is luck."


def _observe(exercise: Exercise, source: bytes, root: Path, screen: Screen) -> None:
    """Run the experiment and keep what came out."""
    seed = catalog.exercise_seed(exercise.slug, SEED)
    paths = catalog.used_paths(exercise, root / "exercises")
    used = {slug: files_in.take(path.parent, path.name) for slug, path in paths.items()}
    with closing(open_launcher(preload=exercise.preload)) as launcher:
        observations = experiments.run(exercise, source, launcher, seed, screen.tell, used)
    screen.tell("")
    _complain(experiments.note_result(exercise, observations, source))


def _outcome(exercise: Exercise, experiment: Experiment, code: str, look: Look) -> list[Line]:
    events, _ = notes.of(exercise)
    this = next((each for each in predictions.rounds(events) if each.code == code), Round(code))
    return [*story.table(experiment, this, look), (), *_why(exercise, events, look)]


def _why(exercise: Exercise, events: story.Events, look: Look) -> list[Line]:
    """Say why, once the student has found it out: not before the exercise passes, nor in place of naming it."""
    if not notes.has_passed(events):
        words = "Is that what should come out? Why it comes out so is told once the exercise passes."
        return [*paragraph(words, look), command("again", f"nox -s check -- {exercise.slug}")]
    if not notes.knows_mechanism(events):
        words = "The exercise passes, so you may know why. Name it, then read the explanation:"
        return [*paragraph(words, look), command("why", f"nox -s explain -- {exercise.slug}")]
    return paragraph(f"why: {catalog.mechanism(exercise).sentence}", look, "green")


def _add(exercise: Exercise, this: Round, said: tuple[str | None, str | None], source: bytes, screen: Screen) -> int:
    """Show what was seen with this very code; a prediction cannot be changed any more, only added to."""
    experiment = experiments.experiment_of(exercise)
    guess, reason = said
    screen.show(story.round_of(experiment, this, screen.look))
    words = "You have seen what this version of your code does, so the prediction stays as it is."
    screen.show(paragraph(f"{words} You may add to it; another version of the code is a new experiment.", screen.look))
    if guess is None and reason is None and screen.is_asked:
        added = screen.ask("what you think now (Enter: nothing)", lambda answer: (answer,))
        guess, reason = "", added[0] if added else ""
    if guess or reason:
        _complain(experiments.note_prediction(exercise, guess or "", reason or "", source))
        screen.show(paragraph("Added.", screen.look))
    events, _ = notes.of(exercise)
    screen.show(_why(exercise, events, screen.look))
    return 0


def _complain(complaint: str | None) -> None:
    if complaint:
        print(complaint, file=sys.stderr)

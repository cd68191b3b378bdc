"""All rules, and the order in which an exercise is put to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from grader.audit import evidence, folders, leaks, sources, words
from grader.audit.evidence import Evidence
from grader.audit.problem import Problem
from grader.errors import BrokenExercise
from grader.records import Exercise

Rule = Callable[[Exercise], Iterator[Problem]]

ON_FILES: tuple[Rule, ...] = (
    folders.name_is_free,
    folders.halves_are_complete,
    folders.repairs_are_enough,
    words.parts_are_written,
    words.readme_has_its_headings,
    words.settings_are_complete,
    words.mechanism_is_complete,
    words.notes_link_the_wild,
    words.repairs_say_what_they_are,
    sources.files_are_short,
    sources.starter_reads_alone,
    sources.signatures_agree,
    sources.checks_explain_themselves,
    sources.asserts_have_messages,
    sources.checks_judge_alone,
    leaks.texts_name_nothing_hidden,
    leaks.texts_quote_no_repair,
    leaks.linter_is_silent,
)
ON_RUNS: tuple[Callable[[Evidence], Iterator[Problem]], ...] = (
    evidence.starter_fails,
    evidence.right_repairs_pass,
    evidence.wrong_repairs_are_caught,
    evidence.checks_are_needed,
    evidence.time_is_within_budget,
)


def faults_on_disk(exercise: Exercise, root: Path) -> list[Problem]:
    """Put an exercise's files to every rule that runs nothing; takes well under a second."""
    found: list[Problem] = []
    for rule in ON_FILES:
        try:
            found += rule(exercise)
        except BrokenExercise as error:
            found.append(Problem.of(error, root))
    return in_order(found)


def faults_in_runs(evidence: Evidence) -> list[Problem]:
    """Put what an exercise's submissions did to every rule on runs."""
    return in_order(problem for rule in ON_RUNS for problem in rule(evidence))


def can_run(exercise: Exercise) -> bool:
    """Return whether the files are there without which there is nothing to run."""
    return all(path.is_file() for path in (exercise.starter_path, exercise.reference_path, exercise.checks_path))


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return problems by path and line, each once."""
    return sorted(set(problems))

"""What stands around the check: predict, explain, reset, hints taken, and notes that survive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fake_course import REPAIRED, STARTER, repair, write_exercise
from grader import catalog, cli, notes, quiz
from grader.records import Outcome
from terminal_session import answer, rest, sit_down
from test_experiments import HARNESS, PREDICT

ATTRIBUTES = Path(__file__).resolve().parent.parent / ".gitattributes"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course of two exercises, the first with an experiment, and commit it."""
    write_exercise(tmp_path, "add_up", 10, more=PREDICT)
    write_exercise(tmp_path, "sum_up", 20)
    (tmp_path / "reference" / "ch1_numbers" / "add_up" / "harness.py").write_text(HARNESS, encoding="utf-8")
    (tmp_path / ".gitattributes").write_bytes(ATTRIBUTES.read_bytes())
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path)
    return tmp_path


def git(where: Path, *arguments: str) -> str:
    """Run real git, as somebody."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True, text=True).stdout


def commit(where: Path) -> None:
    """Commit all there is."""
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", "so far")


def folder(course: Path, slug: str = "add_up") -> Path:
    """Return the student's folder of an exercise."""
    return course / "exercises" / "ch1_numbers" / slug


def note_run(course: Path, outcome: str, first: str = "", slug: str = "add_up") -> None:
    """Leave the note of a run."""
    notes.append(folder(course, slug), "run", outcome=outcome, first_failure=first, seed=0, passed=1)


def said(capsys: pytest.CaptureFixture[str], course: Path, *arguments: str, code: int = 0) -> str:
    """Run a verb and return what it prints, line ends as spaces."""
    assert cli.main(list(arguments), course) == code
    return " ".join(capsys.readouterr().out.split())


# --- predict ----------------------------------------------------------------------------------------------------------


def test_a_student_predicts_at_a_terminal(course: Path) -> None:
    """Nonsense gets a sentence, a reason is asked for, and the result is shown beside the prediction."""
    session = sit_down(course, "predict", "add_up")
    answer(session, "your prediction", "no idea")
    assert "`no idea` is no number. Answer with 3 numbers" in " ".join(
        answer(session, "your prediction", "2, 3, 5").split()
    )
    answer(session, "because", "")
    assert "A few words on why" in answer(session, "because", "one more each")
    code, shown = rest(session)
    assert code == 0
    assert [line.split()[:4] for line in shown.splitlines() if line.strip()[:1] in {"1", "2", "3"}] == [
        ["1", "2", "0", "units"],
        ["2", "3", "-1", "units"],
        ["3", "5", "-2", "units"],
    ]
    assert "is told once the exercise passes" in " ".join(shown.split())


def test_a_prediction_is_kept_and_cannot_be_changed_after_the_result(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, course, "predict", "add_up", "--guess", "grows", "--reason", "it adds")
    again = said(capsys, course, "predict", "add_up", "--guess", "falls", "--reason", "it subtracts")
    assert "you predicted: grows, because it adds" in again
    assert "the prediction stays as it is" in again
    shown = said(capsys, course, "list", "add_up")
    assert "you predicted: grows, because it adds" in shown
    assert "added after the result: falls, because it subtracts" in shown
    assert "predicted 0 of 2" in said(capsys, course, "list")


def test_another_version_of_the_code_is_another_experiment(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And after it passes the mechanism is told, once it was named."""
    said(capsys, course, "predict", "add_up", "--guess", "grows", "--reason", "it adds")
    repair(folder(course))
    note_run(course, "passed")
    shown = said(capsys, course, "predict", "add_up", "--guess", "2, 3, 4", "--reason", "now it adds")
    assert "with an earlier version of your code" in shown
    assert "3 2..4" not in shown
    assert "Name it, then read the explanation: why: nox -s explain -- add_up" in shown
    notes.append(folder(course), "mechanism", choice="Subtraction is not addition.", right=True, seed=1)
    assert "why: Subtraction is not addition." in said(capsys, course, "predict", "add_up")


def test_nonsense_in_an_option_is_wrong_usage(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", "add_up", "--guess", "soon", "--reason", "x"], course) == 2
    assert "--guess: `soon` is no number." in capsys.readouterr().err
    assert cli.main(["predict", "add_up", "--guess", "1, 2, 3", "--reason", " "], course) == 2
    assert cli.main(["predict", "sum_up"], course) == 2
    assert not (folder(course) / notes.NAME).exists()


# --- explain ----------------------------------------------------------------------------------------------------------


def test_the_explanation_opens_when_the_mechanism_is_named(course: Path) -> None:
    """Not before the exercise passes; a wrong choice is answered with why it is wrong."""
    assert rest(sit_down(course, "explain", "add_up"))[0] == 1
    (folder(course) / "add_up.py").write_text(REPAIRED.replace("a + b", "b + a"), encoding="utf-8")
    note_run(course, "passed")
    right = {choice.right: letter for letter, choice in zip("ab", choices(course, 5), strict=True)}
    session = sit_down(course, "explain", "add_up", "--seed", "5")
    answer(session, "one letter", "c")
    assert "a to b" in answer(session, "one letter", right[False])
    assert "Not that. Not by that much." in answer(session, "one letter", right[True])
    code, shown = rest(session)
    assert code == 0
    for words in ("A minus stands where a plus belongs.", "https://example.org/arithmetic", "-    return b + a"):
        assert words in shown
    assert "+    return a + b" in shown
    assert rest(sit_down(course, "explain", "add_up"))[0] == 0


def choices(course: Path, seed: int) -> tuple[quiz.Choice, ...]:
    """Return the choices in the order of this seed."""
    return quiz.name_the_mechanism(catalog.mechanism(catalog.load_course(course)[0]), seed).choices


def test_the_order_of_the_choices_is_the_seeds(course: Path) -> None:
    orders = {choices(course, seed) for seed in range(20)}
    assert len(orders) == 2
    assert choices(course, 3) == choices(course, 3)


def test_without_a_terminal_the_choices_are_shown_and_a_letter_is_an_option(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order stays until an answer was given."""
    note_run(course, "passed")
    order = choices(course, 7)
    for letter, choice in zip("ab", order, strict=True):
        text = said(capsys, course, "explain", "add_up", "--seed", "7", "--answer", letter, code=int(not choice.right))
        assert ("Yes, that is it." in text) is choice.right
        if choice.right:
            break
    assert cli.main(["explain", "sum_up", "--answer", "z"], course) == 1
    note_run(course, "passed", slug="sum_up")
    assert cli.main(["explain", "sum_up", "--answer", "z"], course) == 2


# --- reset ------------------------------------------------------------------------------------------------------------


def test_reset_gives_the_starter_back_and_keeps_the_students_file(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repair(folder(course))
    note_run(course, "passed")
    path = folder(course) / "add_up.py"
    assert "Your file is kept as add_up.mine.py." in said(capsys, course, "reset", "add_up")
    assert path.read_text(encoding="utf-8") == STARTER
    assert path.with_name("add_up.mine.py").read_text(encoding="utf-8") == REPAIRED
    path.write_text("second", encoding="utf-8")
    assert "kept as add_up.mine-2.py." in said(capsys, course, "reset", "add_up")
    assert "is the original starter already" in said(capsys, course, "reset", "add_up")
    assert "- add_up" in said(capsys, course, "list").replace("·", "-")
    assert notes.has_passed(notes.read(folder(course))[0])


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_reset_follows_no_link_and_brings_back_what_is_missing(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, target = folder(course) / "add_up.py", tmp_path / "precious"
    path.unlink()
    assert "`nox -s reset -- add_up` gives the starter back" in said(capsys, course, "list")
    said(capsys, course, "reset", "add_up")
    assert path.read_text(encoding="utf-8") == STARTER
    target.write_text("mine", encoding="utf-8")
    path.unlink()
    path.symlink_to(target)
    said(capsys, course, "reset", "add_up")
    assert (path.read_text(encoding="utf-8"), path.is_symlink()) == (STARTER, False)
    assert target.read_text(encoding="utf-8") == "mine"


# --- hints taken, and what the list shows -----------------------------------------------------------------------------


def test_the_hints_that_were_taken_can_be_read_again(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And reading them takes none."""
    assert "No hint was asked for here" in said(capsys, course, "hint", "add_up", "--taken")
    note_run(course, "failed", "check_two_numbers_are_added")
    said(capsys, course, "hint", "add_up")
    for verb in (("hint", "add_up", "--taken"), ("list", "add_up")):
        shown = said(capsys, course, *verb)
        assert "hint 1 of 3: Which sign" in shown
        assert "hint 2 of 3: Look at the operator." in shown
        assert "hint 3" not in shown
    assert "Add up <- next 1 hint" in said(capsys, course, "list")


def test_the_list_shows_the_best_try_of_a_knowledge_check(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, right in ((1, 5), (2, 9), (3, 2)):
        for number in range(10):
            notes.append(folder(course).parent, "answer", question=f"q{number}", right=number < right, seed=seed)
    assert "knowledge check 9 of 10, passed" in said(capsys, course, "list")


# --- state survives ---------------------------------------------------------------------------------------------------


def test_two_machines_notes_merge_by_git(course: Path) -> None:
    """Both appended since they last met: git keeps the lines of both, in the order of time."""
    note_run(course, "failed", "check_zero_changes_nothing")
    commit(course)
    laptop = course.parent / f"{course.name}-laptop"
    git(course.parent, "clone", "-q", str(course), str(laptop))
    note_run(laptop, "failed", "check_two_numbers_are_added")
    note_run(course, "passed")
    for where in (laptop, course):
        commit(where)
    git(course, "pull", "-q", "--no-rebase", "--no-edit", str(laptop), "main")
    events, complaints = notes.read(folder(course))
    assert not complaints
    assert [event["first_failure"] for event in events] == [
        "check_zero_changes_nothing",
        "check_two_numbers_are_added",
        "",
    ]
    assert notes.outcome_of(notes.last_run(events)) is Outcome.PASSED


def test_what_an_exercise_was_called_before_still_counts(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An update renames it; notes and file of the old name stay where they were."""
    note_run(course, "passed")
    for half in ("exercises", "reference"):
        (course / half / "ch1_numbers" / "add_up").rename(course / half / "ch1_numbers" / "plus")
    for half in ("exercises", "reference"):
        here = course / half / "ch1_numbers" / "plus"
        (here / "add_up.py").rename(here / "plus.py")
    old = folder(course)
    old.mkdir()
    (folder(course, "plus") / notes.NAME).rename(old / notes.NAME)
    (old / "add_up.py").write_text(REPAIRED, encoding="utf-8")
    toml = folder(course, "plus") / "exercise.toml"
    toml.write_text(f'formerly = ["ch1_numbers/add_up"]\n{toml.read_text(encoding="utf-8")}', encoding="utf-8")
    shown = said(capsys, course, "list")
    assert "1 of 2 repaired" in shown
    assert "add_up is called plus now; your file is still in add_up/." in shown
    note_run(course, "failed", "check_a", slug="plus")
    assert "0 of 2 repaired" in said(capsys, course, "list")
    toml.write_text(toml.read_text(encoding="utf-8").replace("ch1_numbers/add_up", "../secrets"), encoding="utf-8")
    assert cli.main(["list"], course) == 3


def test_a_deleted_or_broken_file_of_notes_loses_nothing_else(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_run(course, "passed")
    note_run(course, "passed", slug="sum_up")
    (folder(course) / notes.NAME).write_bytes(b"\xff\x00\n{}\n")
    (folder(course, "sum_up") / notes.NAME).unlink()
    for verb in ("list", "hint", "predict"):
        arguments = [verb] if verb == "list" else [verb, "add_up"]
        arguments += ["--guess", "grows", "--reason", "x"] if verb == "predict" else []
        assert cli.main(arguments, course) == 0
        shown = capsys.readouterr()
        assert "Line 1 of add_up/notes.jsonl is no note" in " ".join((shown.out + shown.err).split())
    assert len(notes.read(folder(course))[0]) == 2

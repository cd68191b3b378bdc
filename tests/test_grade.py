"""A class of twelve: every row there and right, whatever is handed in and whatever happens meanwhile."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fake_class import (
    CLASS_SEED,
    STANDINGS,
    TIMES,
    command,
    grade,
    graded_works,
    hand_in,
    out_of,
    program,
    read_grades,
    standings,
    write_course,
)
from fake_course import REPAIRED
from grader import cli
from grader.classroom.store import NAME, Store
from grader.launch import open_launcher
from grader.records import Level

pytestmark = pytest.mark.timeout(600)  # a class is more than a test; far above what it needs
SMALL = ("--only", "add_up", "--no-beliefs", "--jobs", "1")
KILLS = 5


@contextmanager
def small_class(folder: Path) -> Iterator[Path]:
    """Write two right hand-ins."""
    hand_in(folder / "ada")
    hand_in(folder / "ben", [TIMES, REPAIRED, REPAIRED])
    yield folder


def test_every_student_has_a_row_for_every_exercise_and_it_is_right(graded_class: Path) -> None:
    """Hostile, hanging, empty, renamed and huge ones cost only themselves."""
    assert standings(out_of(graded_class)) == STANDINGS
    rows = list(csv.DictReader((out_of(graded_class) / "grades.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["student"], row["exercise"]) for row in rows] == [
        (name, slug) for name in STANDINGS for slug in ("add_up", "sum_up", "put_together")
    ]


def test_nothing_outside_was_touched(graded_class: Path) -> None:
    """At the level that `grade` asks for; the report names it."""
    if (level := json.loads((out_of(graded_class) / "grades.json").read_text())["isolation"]) == "B0":
        pytest.fail("`grade` ran below B1 without having been told to")
    assert level in {"B1", "B2"}
    assert graded_class.with_name("victim.txt").read_text() == "untouched"
    assert (out_of(graded_class) / NAME).read_bytes().startswith(b"SQLite format 3")


def test_all_checks_run_and_only_progress_beyond_the_starter_earns_points(graded_class: Path) -> None:
    """The starter passes one check of four; twice the same answer passes another one and breaks none."""
    exercises = {each["student"]: each["exercises"] for each in read_grades(out_of(graded_class))["students"]}
    assert [check["outcome"] for check in exercises["carol"][0]["checks"]] == ["failed", "failed", "failed"]
    assert [exercise["points"] for exercise in exercises["bob"]] == [0, 0, 0]
    assert [exercise["points"] for exercise in exercises["alice"]] == [2, 2, 2]
    assert exercises["alice"][0]["held_out"][0]["outcome"] == "passed"


def test_a_hand_in_that_hangs_costs_two_limits_and_not_one_for_each_check(graded_class: Path) -> None:
    exercises = {each["student"]: each["exercises"] for each in read_grades(out_of(graded_class))["students"]}
    outcomes = [check["outcome"] for check in exercises["emil"][0]["checks"]]
    assert outcomes == ["failed", "failed", "not_run"]


def test_the_student_reads_the_first_failing_assertion_and_a_hint(graded_class: Path) -> None:
    feedback = (out_of(graded_class) / "feedback" / "carol.md").read_text(encoding="utf-8")
    assert "add(2, 0) is 0, expected 2." in feedback
    assert "hint 1 of 2: Zero is special." in feedback
    renamed = (out_of(graded_class) / "feedback" / "hana.md").read_text(encoding="utf-8")
    assert "found add_up_final.py. Rename it to add_up.py." in " ".join(renamed.split())
    assert "kofi.zip cannot be read" in (out_of(graded_class) / "feedback" / "kofi.md").read_text(encoding="utf-8")


def test_the_instructor_sees_what_the_class_believes(graded_class: Path) -> None:
    """Another program with the same mistake is recognised by failing alike."""
    report = (out_of(graded_class) / "report.md").read_text(encoding="utf-8")
    assert "| 1 | Addition is repeated, so it is multiplication. | add_up |" in report


def test_a_second_run_grades_nothing_and_a_changed_hand_in_alone_is_graded_again(
    class_course: Path, tmp_path: Path
) -> None:
    with small_class(tmp_path / "class") as folder:
        first = grade(class_course, folder, *SMALL)
        assert (first.returncode, graded_works(first)) == (0, 3)  # the two, and the starter
        before = read_grades(out_of(folder))
        again = grade(class_course, folder, *SMALL)
        assert (graded_works(again), read_grades(out_of(folder))) == (0, before)
        program(folder / "ben", "add_up").write_text(REPAIRED + "# now it is right\n")
        changed = grade(class_course, folder, *SMALL)
        assert graded_works(changed) == 1
        assert standings(out_of(folder))["ben"] == ("repaired",)


def test_changed_checks_are_run_again(tmp_path: Path) -> None:
    own = write_course(tmp_path / "course")
    with small_class(tmp_path / "class") as folder:
        grade(own, folder, *SMALL)
        checks = own / "reference" / "ch1_numbers" / "add_up" / "checks.py"
        checks.write_text(checks.read_text().replace("add(5, 2)", "add(5, 2) again"))
        assert graded_works(grade(own, folder, *SMALL)) == 3


def test_killed_at_any_moment_it_goes_on_and_ends_with_the_same_results(class_course: Path, graded_class: Path) -> None:
    """SIGKILL, five times, each time at a later work; the results equal those of the run that nobody disturbed."""
    out = graded_class.with_name("killed")
    for kill in range(KILLS):
        with subprocess.Popen(
            command(graded_class, CLASS_SEED, "--out", out), cwd=class_course, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stderr is not None
            seen = 0
            for line in run.stderr:
                seen += line.startswith("grading")
                if seen == 1 + kill % 3:
                    break
            run.send_signal(signal.SIGKILL)
            run.stderr.close()
    last = grade(class_course, graded_class, "--out", out)
    assert last.returncode == 0, last.stderr
    assert 0 < graded_works(last) < 30, "what was graded before a kill is not graded again"
    assert read_grades(out) == read_grades(out_of(graded_class))


def test_interrupted_it_says_how_to_go_on(class_course: Path, graded_class: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told all below it to ignore Ctrl-C
    with subprocess.Popen(
        command(graded_class, CLASS_SEED, "--out", graded_class.with_name("interrupted")),
        cwd=class_course,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stderr is not None
        next(line for line in run.stderr if line.startswith("grading"))
        run.send_signal(signal.SIGINT)
        words = run.stderr.read()
    assert run.returncode == 130
    assert "graded and kept. The same command goes on." in words
    assert "Traceback" not in words


def test_two_at_once_on_one_folder_are_refused(
    class_course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_class(tmp_path / "class") as folder, closing(Store(out_of(folder), Level.B1)):
        assert cli.main(["grade", str(folder)], class_course) == 2
    assert "class-grades is in use by another `grade`. Wait until it has ended" in capsys.readouterr().err


def test_shards_together_give_what_one_run_gives(class_course: Path, graded_class: Path) -> None:
    shards = [graded_class.with_name(f"shard{number}") for number in (1, 2, 3)]
    for number, shard in enumerate(shards, 1):
        done = grade(class_course, graded_class, CLASS_SEED, "--out", shard, "--shard", f"{number}/3")
        assert done.returncode == 0, done.stderr
    merged = grade(class_course, graded_class, "--out", graded_class.with_name("merged"), "--merge", *shards)
    assert (merged.returncode, graded_works(merged)) == (0, 0), merged.stderr
    assert read_grades(graded_class.with_name("merged")) == read_grades(out_of(graded_class))


def test_shards_of_another_seed_are_refused(
    class_course: Path, graded_class: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Store(graded_class.with_name("another"), Level.B1)) as store:
        store.seed(12, again=False)
    shards = [str(out_of(graded_class)), str(graded_class.with_name("another"))]
    options = ["--out", str(graded_class.with_name("clash")), "--merge", *shards]
    assert cli.main(["grade", str(graded_class), *options], class_course) == 2
    assert "was graded with another seed. Give every shard the same `--seed`." in capsys.readouterr().err


def test_a_machine_that_cannot_confine_is_refused_with_the_way_out(
    class_course: Path, graded_class: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLINGS_ISOLATION", "B0")
    assert cli.main(["grade", str(graded_class)], class_course) == 3
    said = capsys.readouterr().err
    assert "Level B1 is required" in said
    assert "devcontainer" in said
    assert "`--isolation B0`" in said


def test_the_level_is_named_where_it_was_lowered(
    class_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was graded at B0 does not count where B1 is asked for again."""
    monkeypatch.setenv("RANKLINGS_ISOLATION", "B0")
    with small_class(tmp_path / "class") as folder:
        done = grade(class_course, folder, "--isolation", "B0", *SMALL)
        assert "isolation B0" in done.stdout
        assert "Graded at B0: a submission could read the checks" in (out_of(folder) / "report.html").read_text()
        monkeypatch.delenv("RANKLINGS_ISOLATION")
        assert graded_works(grade(class_course, folder, *SMALL)) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere cannot be read: No such file or directory."),
        (["."], "holds no hand-in"),
        (["class", "--out", "class/grades"], "where everything is a hand-in"),
        (["class", "--only", "ad_up"], "Did you mean `add_up`?"),
        (["class", "--merge", "nothing"], "Name the folder that a shard wrote."),
        (["class", "--dask", "tcp://127.0.0.1:9"], "No Dask scheduler answers at tcp://127.0.0.1:9"),
        (["class", "--roster", "nobody.csv"], "cannot be read as CSV"),
    ],
)
def test_wrong_usage_is_a_sentence(
    class_course: Path,
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grader.classroom.cluster.CONNECT_S", 1)
    (tmp_path / "empty").mkdir()
    hand_in(tmp_path / "class" / "ada")
    monkeypatch.chdir(tmp_path / "empty" if arguments == ["."] else tmp_path)
    assert cli.main(["grade", *arguments], class_course) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_a_launcher_of_the_required_level_is_there() -> None:
    """Or the tests above would say nothing."""
    open_launcher(Level.B1).close()

"""The instructor's half in one file: nothing of it can be read by looking, all of it by the grader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_course import CHECKS, write_exercise
from grader import catalog, cli, sealed
from grader.errors import GraderError
from grader.launch import open_launcher
from grader.records import Outcome, Submission
from grader.runner import run

CHECKOUT = Path(catalog.__file__).resolve().parents[1]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course whose second half is sealed, as the students have it."""
    write_exercise(tmp_path, "add_up")
    half = tmp_path / "reference"
    members = {
        path.relative_to(half).as_posix(): path.read_text(encoding="utf-8")
        for path in half.rglob("*")
        if path.name in {"checks.py", "mechanism.toml"}
    }
    (tmp_path / sealed.NAME).write_bytes(sealed.seal(members))
    half.rename(tmp_path / "elsewhere")
    return tmp_path


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_sealed_comes_back(members: dict[str, str]) -> None:
    assert sealed.unseal(sealed.seal(members)) == members


def test_nothing_can_be_read_by_looking() -> None:
    whole = sealed.seal({"checks.py": CHECKS * 50})
    assert not any(line.encode() in whole for line in CHECKS.splitlines() if line)


def test_the_order_of_the_members_does_not_matter() -> None:
    assert sealed.seal({"a": "1", "b": "2"}) == sealed.seal({"b": "2", "a": "1"})


def test_a_damaged_file_is_a_sentence(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a verdict on anybody's work, and no traceback."""
    file = course / sealed.NAME
    file.write_bytes(file.read_bytes()[:-7])
    assert cli.main(["list"], course) == 3
    assert capsys.readouterr().err == ("reference.sealed is damaged. Get it back: git checkout -- reference.sealed\n")
    with pytest.raises(GraderError, match="another version"):
        sealed.unseal(sealed._mask(b'{"schema": "ranklings/sealed/2", "files": {}}'))


def test_a_folder_comes_before_the_sealed_file(course: Path) -> None:
    (course / "elsewhere").rename(course / "reference")
    assert sealed.reference_of(course) == course / "reference"


def test_checks_run_from_the_sealed_file(course: Path) -> None:
    (exercise,) = catalog.load_course(course)
    launcher = open_launcher()
    try:
        result = run(Submission(exercise, exercise.starter_path), launcher, 1)
    finally:
        launcher.close()
    assert result.outcome is Outcome.FAILED
    assert result.first_failure is not None
    assert result.first_failure.hint == "Which sign does the second number have?"


def test_what_was_opened_goes_with_the_process(course: Path) -> None:
    """Nobody but its user may enter the folder meanwhile."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom grader.sealed import reference_of\n"
        f"folder = reference_of(Path({str(course)!r}))\n"
        "assert (folder / 'ch1_numbers' / 'add_up' / 'checks.py').is_file()\n"
        "print(folder.parent, oct(folder.parent.stat().st_mode & 0o77))"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(course)}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    folder, others = said.stdout.split()
    assert others == "0o0"
    assert not Path(folder).exists()


SPY = '''"""Read what lies about."""

import os


def add(a: float, b: float) -> float:
    found = []
    for folder in {folders!r}:
        try:
            found += [name for name in os.listdir(folder) if name.startswith(("ranklings-", "reference"))]
        except OSError:
            pass
    raise ValueError(f"found {{found}}")
'''


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_what_a_killed_process_left_open_is_taken_away_by_the_next(course: Path) -> None:
    """And nothing that another process still uses, nor what has only just been made."""
    opening = f"from pathlib import Path\nfrom grader.sealed import reference_of\nreference_of(Path({str(course)!r}))\n"
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(course)}
    ends = ["import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "print('open', flush=True)\ninput()", ""]
    killed, using, next_one = ([sys.executable, "-c", opening + end] for end in ends)
    subprocess.run(killed, env=environment, check=False)
    (left,) = course.glob("ranklings-*")
    os.utime(left, (0, 0))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(using, env=environment, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert not left.exists()
        (used,) = course.glob("ranklings-*")
        os.utime(used, (0, 0))
        (course / "ranklings-opened-new").mkdir()
        subprocess.run(next_one, env=environment, check=True)
        (course / "ranklings-opened-new").rmdir()
        assert list(course.glob("ranklings-*")) == [used]
        process.communicate(b"\n")
    assert not list(course.glob("ranklings-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines what a rank may read")
def test_a_rank_finds_neither_the_sealed_file_nor_what_was_opened(course: Path) -> None:
    (exercise,) = catalog.load_course(course)
    opened = exercise.reference_dir.parents[2]
    exercise.starter_path.write_text(SPY.format(folders=[str(course), str(opened), str(opened.parent)]))
    launcher = open_launcher()
    try:
        result = run(Submission(exercise, exercise.starter_path), launcher, 1)
    finally:
        launcher.close()
    assert "found []" in result.checks[0].message

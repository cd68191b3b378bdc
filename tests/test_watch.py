"""`check --watch`: whatever way a file is saved, it is checked again, and the student moves on when it passes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pexpect
import pytest

from fake_course import REPAIRED, STARTER, repair, write_exercise
from grader import cli, notes, saves
from grader.verbs import watch
from terminal_session import PATIENCE_S, ROOT, answer, command_line, rest, sit_down


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course of two exercises and return its root."""
    write_exercise(tmp_path, "add_up", 10)
    write_exercise(tmp_path, "sum_up", 20)
    return tmp_path


def folder(course: Path, slug: str) -> Path:
    """Return the student's folder of an exercise."""
    return course / "exercises" / "ch1_numbers" / slug


def press(session: pexpect.spawn, key: str, *expected: str) -> None:
    """Press a key and wait for what it shows, then for the next turn."""
    session.send(key)
    for words in (*expected, "q quit"):
        session.expect_exact(words)


def test_a_student_works_through_the_course_at_a_terminal(course: Path) -> None:
    """Keys for hint, list, explain and next; a save is checked; what passes is left behind; the end is 0."""
    session = sit_down(course, "check", "--watch")
    session.expect_exact("✗")
    session.expect_exact("0 of 2 repaired\x1b[0m\r\n")
    session.expect_exact("q quit")
    press(session, "h", "hint 2 of 3: Look at the operator.")
    press(session, "l", "ch1 numbers · 0 of 2 repaired", "<- next", "1 hint")
    press(session, "e", "opens after all checks have passed")
    press(session, "n", "sum_up", "check 2 of 3")
    unfinished = folder(course, "add_up") / ".add_up.py.swp"
    unfinished.write_text(REPAIRED, encoding="utf-8")
    unfinished.replace(folder(course, "add_up") / "add_up.py")
    session.expect_exact("1 of 2 repaired")
    session.expect_exact("████████████░░░░░░░░░░░░")
    session.expect_exact("(e: add_up)")
    session.send("e")
    for letter in "ab":
        shown = answer(session, "one letter", letter)
        if "What was wrong" in shown and "a) Subtraction" in shown:
            break
    session.expect_exact("A minus stands where a plus belongs.")
    session.expect_exact("q quit")
    repair(folder(course, "sum_up"))
    code, said = rest(session)
    assert code == 0
    assert "All that you asked for is repaired." in said
    assert [notes.is_repaired(each) for each in cli.catalog.load_course(course)] == [True, True]


@pytest.mark.parametrize("end", ["q", "\x03", "SIGTERM"])
def test_the_terminal_is_left_as_it_was(course: Path, end: str) -> None:
    """Whoever leaves sees again what is typed."""
    shell = pexpect.spawn("/bin/sh", ["-i"], cwd=str(ROOT), encoding="utf-8", timeout=PATIENCE_S, dimensions=(40, 200))
    shell.sendline("PS1='ready> '")
    command = command_line(course, "check", "--watch")
    shell.sendline(f'{command[0]} {command[1]} "{command[2]}" check --watch; echo left with $?; stty -a')
    shell.expect_exact("q quit")
    if end == "SIGTERM":
        children = subprocess.run(["pgrep", "-P", str(shell.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(int(children.split()[0]), signal.SIGTERM)
    else:
        shell.send(end)
    shell.expect(r"left with (\d+)")
    assert shell.match.group(1) == {"q": "1", "\x03": "130", "SIGTERM": "130"}[end]
    shell.expect(r"(-?)icanon[\s\S]* (-?)echo ")
    assert shell.match.groups() == ("", "")
    shell.close(force=True)


def test_without_a_terminal_it_prints_plainly(course: Path) -> None:
    command = command_line(course, "check", "--watch")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout)
        shown = [next(line for line in lines if "Waiting for a file to be saved" in line)]
        repair(folder(course, "add_up"))
        shown += [next(line for line in lines if "Waiting" in line)]
        repair(folder(course, "sum_up"))
        shown += list(lines)
    assert process.returncode == 0
    assert "\x1b" not in "".join(shown)
    assert shown[-1] == "  All that you asked for is repaired.\n"


def test_a_run_that_writes_reports_is_not_watched(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--watch", "--json", "r.json"], course) == 2
    assert "what writes files, --submission and --jobs are for one run" in capsys.readouterr().err


# --- how a file is saved ----------------------------------------------------------------------------------------------


def in_place(path: Path) -> None:
    """Save as a simple editor does."""
    path.write_text(REPAIRED, encoding="utf-8")


def by_rename(path: Path) -> None:
    """Save as most editors do: the new file takes the old one's place."""
    other = path.with_name("4913")
    other.write_text(REPAIRED, encoding="utf-8")
    other.replace(path)


def with_a_backup(path: Path) -> None:
    """Save as vim may: the old file is renamed, a new one written."""
    path.rename(path.with_name(f"{path.name}~"))
    path.write_text(REPAIRED, encoding="utf-8")


def away_and_back(path: Path) -> None:
    """Save what was called otherwise for a while."""
    path.rename(path.with_name("was.py"))
    path.with_name("was.py").rename(path)


@pytest.mark.parametrize("polling", ["", "1"], ids=["announced", "polled"])
@pytest.mark.parametrize("save", [in_place, by_rename, with_a_backup, away_and_back])
def test_a_save_is_noticed_however_it_is_done(
    course: Path, save: Callable[[Path], None], polling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is the next one of the same file."""
    if save is away_and_back and polling:
        return  # between two looks nothing has changed
    if polling:
        monkeypatch.setenv(saves.VARIABLE, "poll")
    path = folder(course, "add_up") / "add_up.py"
    with closing(saves.saved(course / "exercises")) as turns:
        for _ in range(2):
            first_of(turns, lambda slugs: not slugs)
            save(path)
            assert first_of(turns, bool) == {"add_up"}
            first_of(turns, lambda slugs: not slugs)
            path.write_text(STARTER, encoding="utf-8")
            assert first_of(turns, bool) == {"add_up"}


def first_of(turns: Iterator[frozenset[str]], fits: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Return the first turn that fits."""
    return next(slugs for slugs in turns if fits(slugs))


def test_other_files_are_not_taken_for_saves(course: Path) -> None:
    """Notes, caches, other programs beside the exercise."""
    with closing(saves.saved(course / "exercises")) as turns:
        next(turns)
        for name in ("notes.jsonl", "other.py", "add_up.py~", "README.md"):
            (folder(course, "add_up") / name).write_text("x", encoding="utf-8")
        (folder(course, "add_up") / "add_up.py").unlink()
        assert [next(turns) for _ in range(5)] == [frozenset()] * 5


LOCAL = "22 1 0:20 / / rw - ext4 /dev/sda rw\n30 22 0:25 / /home rw shared:1 - {} server:/home rw\n"


@pytest.mark.parametrize(
    ("kind", "polls"),
    [
        *((kind, True) for kind in ("nfs4", "cifs", "9p", "fuse.sshfs", "vboxsf")),
        *((kind, False) for kind in ("ext4", "btrfs", "overlay", "fuse.fuse-overlayfs")),
    ],
)
def test_distant_mounts_are_polled(kind: str, polls: bool) -> None:
    mounts = LOCAL.format(kind)
    assert saves.needs_polling(Path("/home/ada/ranklings"), mounts) is polls
    assert saves.needs_polling(Path("/srv/ranklings"), mounts) is False


def test_a_mount_point_with_a_space_is_found() -> None:
    assert saves.needs_polling(Path("/mnt/my disk/x"), "31 22 0:25 / /mnt/my\\040disk rw - 9p C: rw\n")


# --- what stays warm --------------------------------------------------------------------------------------------------


def test_processes_stay_warm_until_the_environment_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that was installed meanwhile is there in the next run."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    warm = watch.WarmLauncher()
    with closing(warm):
        first = warm.take(())
        assert warm.take(()) is first
        (packages / "new_package").mkdir()
        os.utime(packages, ns=(1, 1))  # as if it had been another time, even where clocks are coarse
        assert warm.take(()) is not first

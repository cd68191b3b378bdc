"""What is taken from hand-ins: named regular files and nothing else, however they are packed and whoever made them."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fake_class import SLUGS, hand_in, program, tar_folder, write_course, zip_folder
from fake_course import REPAIRED
from grader import catalog
from grader.classroom import archives, commits, handed_in
from grader.errors import RefusedFile, UsageError
from grader.records import Exercise

WANTED = "exercises/ch1_numbers/add_up/add_up.py"
GOOD = REPAIRED.encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write a course."""
    return write_course(tmp_path / "course")


@pytest.fixture
def course(root: Path) -> tuple[Exercise, ...]:
    """Return its exercises."""
    return catalog.load_course(root)


def take(path: Path, root: Path, *, with_dates: bool = False) -> handed_in.HandIn:
    """Take a hand-in of that course."""
    return handed_in.take(path, catalog.load_course(root), root, with_dates=with_dates)


def words(taken: handed_in.Taken) -> str:
    """Return why a program was refused."""
    assert isinstance(taken, RefusedFile)
    return str(taken)


# --- where the course is in a hand-in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [".", "ranklings-main", "week 1/ranklings-main"])
def test_the_course_is_found_at_the_top_or_a_little_below(tmp_path: Path, root: Path, inside: str) -> None:
    hand_in(tmp_path / "ada" / inside)
    assert take(tmp_path / "ada", root).programs == dict.fromkeys(SLUGS, GOOD)


def test_a_folder_that_holds_one_archive_is_that_archive(tmp_path: Path, root: Path) -> None:
    """As learning platforms hand it over."""
    zip_folder(hand_in(tmp_path / "elsewhere" / "work"))
    (tmp_path / "Ada Lovelace_17_file").mkdir()
    (tmp_path / "elsewhere" / "work.zip").rename(tmp_path / "Ada Lovelace_17_file" / "work.zip")
    taken = take(tmp_path / "Ada Lovelace_17_file", root)
    assert (taken.student, taken.programs["add_up"]) == ("Ada Lovelace_17_file", GOOD)


@pytest.mark.parametrize("kind", ["the file", "its folder", "exercises", "a FIFO"])
def test_no_link_is_followed(tmp_path: Path, root: Path, kind: str) -> None:
    """Neither to the reference nor to another student's work."""
    other, home = hand_in(tmp_path / "other"), hand_in(tmp_path / "ada")
    path = {"the file": program(home, "add_up"), "a FIFO": program(home, "add_up")}.get(kind)
    path = path or (program(home, "add_up").parent if kind == "its folder" else home / "exercises")
    subprocess.run(["rm", "-r", str(path)], check=True)
    if kind == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(other / path.relative_to(home))
    assert isinstance(take(home, root).programs["add_up"], RefusedFile)


def test_links_and_other_files_in_the_class_folder_are_no_hand_ins(tmp_path: Path, root: Path) -> None:
    hand_in(tmp_path / "class" / "ada")
    (tmp_path / "class" / "bob").symlink_to(root)
    for name in ("notes.txt", ".DS_Store"):
        (tmp_path / "class" / name).write_text("")
    assert [path.name for path in handed_in.students_of(tmp_path / "class")] == ["ada"]


def test_two_hand_ins_of_one_name_are_refused(tmp_path: Path) -> None:
    zip_folder(hand_in(tmp_path / "ada"))
    with pytest.raises(UsageError, match="two hand-ins called ada"):
        handed_in.students_of(tmp_path)


# --- archives ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [zip_folder, tar_folder])
def test_an_archive_is_read_without_unpacking_it(tmp_path: Path, root: Path, pack: Callable[[Path], None]) -> None:
    pack(hand_in(tmp_path / "ada"))
    archive = next(path for path in tmp_path.iterdir() if path.name.startswith("ada."))
    before = sorted(tmp_path.rglob("*"))
    assert take(archive, root).programs == dict.fromkeys(SLUGS, GOOD)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_renamed_file_in_an_archive_is_named(tmp_path: Path, root: Path) -> None:
    home = hand_in(tmp_path / "ada")
    program(home, "add_up").rename(program(home, "add_up").with_name("Add_up.py"))
    zip_folder(home)
    assert "found Add_up.py. Rename it to add_up.py." in words(take(tmp_path / "ada.zip", root).programs["add_up"])


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    """Write a zip archive entry by entry."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def linked(name: str) -> zipfile.ZipInfo:
    """Return the head of an entry that is a symbolic link."""
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize("name", ["../../victim", "/etc/passwd", "a/../../b", "C:/x", "..\\..\\victim"])
def test_an_entry_that_leads_out_of_the_archive_is_named(tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / "a.zip", (WANTED, GOOD), (name, b""))
    with pytest.raises(RefusedFile, match=r"^a\.zip: Its entry `.*` leads out of it\."):
        archives.read_archive(path, {WANTED: 1 << 20})


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zipped(tmp_path / "a.zip", (WANTED, GOOD), (WANTED, b"other"))
    with pytest.raises(RefusedFile, match="two entries"):
        archives.read_archive(path, {WANTED: 1 << 20})


def test_a_link_in_an_archive_is_no_program(tmp_path: Path, root: Path) -> None:
    path = zipped(tmp_path / "a.zip", (linked(WANTED), b"/etc/passwd"))
    assert "is a link or a device" in words(take(path, root).programs["add_up"])
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        for slug, kind in zip(SLUGS, (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE), strict=True):
            entry = tarfile.TarInfo(f"exercises/ch1_numbers/{slug}/{slug}.py")
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
    for slug in SLUGS:
        assert "is a link or a device" in words(take(tmp_path / "b.tar", root).programs[slug])


def test_a_few_bytes_that_unpack_to_many_cost_nothing(tmp_path: Path, root: Path) -> None:
    """Of a zip entry one byte more than it may have is read; a tar is read to a limit."""
    path = zipped(tmp_path / "a.zip", (WANTED, b"\n" * (64 << 20)), ("padding", b"\0" * (64 << 20)))
    assert "add_up.py is larger than 1024 KiB" in words(take(path, root).programs["add_up"])
    with tarfile.open(tmp_path / "b.tar.gz", "w:gz", compresslevel=1) as archive:
        entry = tarfile.TarInfo("padding")
        entry.size = archives.MAX_UNPACKED_BYTES + 1
        archive.addfile(entry, io.BytesIO(b"\0" * entry.size))
    assert "It unpacks to more than 128 MiB" in words(take(tmp_path / "b.tar.gz", root).programs["add_up"])


def test_an_archive_of_too_many_entries_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The announced size of a zip's directory decides, whatever the directory holds."""
    path = zipped(tmp_path / "a.zip", (WANTED, GOOD))
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\x05\x06")
    data[at + 10 : at + 16] = struct.pack("<HI", 65_000, 64 << 20)
    path.write_bytes(data)
    with pytest.raises(RefusedFile, match="more than 20000 entries"):
        archives.read_archive(path, {WANTED: 1 << 20})


@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "text"])
@pytest.mark.parametrize("ending", ["zip", "tar", "tgz"])
def test_a_damaged_archive_is_a_sentence(tmp_path: Path, damage: str, ending: str) -> None:
    path = zipped(tmp_path / "a.zip", (WANTED, GOOD)) if ending == "zip" else tmp_path / "a"
    if ending != "zip":
        with tarfile.open(path, "w:gz" if ending == "tgz" else "w") as archive:
            entry = tarfile.TarInfo(WANTED)
            entry.size = len(GOOD)
            archive.addfile(entry, io.BytesIO(GOOD))
    data = path.read_bytes()
    broken = {"cut": data[: len(GOOD) // 2], "noise": b"\xff" * 600, "empty": b"", "text": b"hello, world\n" * 99}[
        damage
    ]
    target = tmp_path / f"b.{ending}"
    target.write_bytes(broken)
    with pytest.raises(RefusedFile, match=rf"^b\.{ending}"):
        archives.read_archive(target, {WANTED: 1 << 20})


# --- commits ----------------------------------------------------------------------------------------------------------


def git(home: Path, *arguments: str, when: str = "2026-10-01T12:00:00Z") -> None:
    """Run git as a student does."""
    environment = {**os.environ, "GIT_COMMITTER_DATE": when, "GIT_AUTHOR_DATE": when, "HOME": str(home)}
    who = ["-c", "user.name=S", "-c", "user.email=s@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=home, env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Write a repository of two commits, the second to one exercise."""
    home = hand_in(tmp_path / "ada")
    git(home, "init", "-q", "-b", "main")
    git(home, "add", ".")
    git(home, "commit", "-qm", "start")
    program(home, "sum_up").write_text(REPAIRED + "# late\n")
    git(home, "commit", "-qam", "late", when="2026-10-05T12:00:00Z")
    return home


def at(day: int) -> int:
    """Return noon of a day in October in seconds."""
    return int(datetime(2026, 10, day, 12, tzinfo=UTC).timestamp())


@pytest.mark.parametrize("kept", ["loose", "packed", "detached", "cloned"])
def test_each_exercise_has_the_date_of_its_last_commit(repository: Path, root: Path, kept: str) -> None:
    if kept == "packed":
        git(repository, "gc", "-q")
        git(repository, "pack-refs", "--all")
    elif kept == "detached":
        git(repository, "checkout", "-q", "--detach")
    elif kept == "cloned":
        git(repository.parent, "clone", "-q", str(repository), "copy")
        repository = repository.with_name("copy")
    taken = take(repository, root, with_dates=True)
    assert len(taken.commit) == 40
    assert taken.dates == {"add_up": at(1), "sum_up": at(5), "put_together": at(1)}


def test_a_shallow_clone_has_the_date_of_its_commit(repository: Path, root: Path) -> None:
    git(repository.parent, "clone", "-q", "--depth", "1", f"file://{repository}", "copy")
    assert take(repository.with_name("copy"), root, with_dates=True).dates == dict.fromkeys(SLUGS, at(5))


def test_nothing_of_a_students_repository_is_executed(repository: Path, root: Path, tmp_path: Path) -> None:
    """Hooks, monitors, pagers, signatures, filters, text conversions, fetches of missing objects: none has a say."""
    victim, script = tmp_path / "victim", tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {victim}\n")
    script.chmod(0o755)
    config = f"""
[core]
    fsmonitor = {script}
    pager = {script}
    hooksPath = {tmp_path / "hooks"}
    sshCommand = {script}
[gpg]
    program = {script}
[log]
    showSignature = true
[diff]
    external = {script}
[diff "evil"]
    textconv = {script}
[filter "evil"]
    smudge = {script}
    clean = {script}
[remote "origin"]
    url = ext::{script}
    promisor = true
[protocol "ext"]
    allow = always
"""
    with (repository / ".git" / "config").open("a") as file:
        file.write(config)
    (repository / ".gitattributes").write_text("* diff=evil filter=evil\n")
    (repository / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = ext::{script}\n')
    hooks = [repository / ".git" / "hooks", tmp_path / "hooks"]
    for name in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        for folder in hooks:
            folder.mkdir(exist_ok=True)
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(script)
    taken = take(repository, root, with_dates=True)
    assert taken.dates["sum_up"] == at(5)
    assert not victim.exists()
    subprocess.run(["git", "status"], cwd=repository, capture_output=True, check=False)
    assert victim.exists(), "plain git would have run it"


@pytest.mark.parametrize(
    "head", ["ref: refs/heads/../../../../etc/passwd", "ref: refs/heads/none", "--help", "", "\0" * 99]
)
def test_a_broken_head_is_no_commit(repository: Path, root: Path, head: str) -> None:
    (repository / ".git" / "HEAD").write_text(head)
    taken = take(repository, root, with_dates=True)
    assert (taken.commit, taken.dates, taken.programs["add_up"]) == ("", {}, GOOD)


def test_a_repository_elsewhere_is_not_looked_at(repository: Path, root: Path, tmp_path: Path) -> None:
    """`.git` as a file, as a submodule or a worktree has it, or as a link."""
    other = hand_in(tmp_path / "bob")
    (other / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert take(other, root, with_dates=True).commit == ""
    (other / ".git").unlink()
    (other / ".git").symlink_to(repository / ".git")
    assert take(other, root, with_dates=True).commit == ""


def test_damaged_objects_are_no_date(repository: Path) -> None:
    commit = commits.commit_of(repository)
    subprocess.run(["rm", "-r", str(repository / ".git" / "objects" / commit[:2])], check=True)
    assert commits.dates_of(repository, commit, [WANTED]) == {}

"""The students' copy: what is in it, what is not, that `git init` is all it needs, and that it is always the same."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from fake_course import MECHANISM, REPAIRED, STARTER, repair, write_exercise
from grader import catalog, cli
from grader.release import members
from grader.release.writing import write_folder
from grader.sealed import NAME, unseal
from released import files_of, grader_in, python_in

CHECKOUT = Path(__file__).resolve().parents[1]
HIDDEN = {  # by the name of its file, a sentence that must be found nowhere
    "right/other.py": '"""Other people add from the right."""\n',
    "wrong/minus.py": '"""People believe in minus. """\n',
    "notes.md": "Seen in the wild on a Tuesday.\n",
    "held_out.py": '"""Checks that are never released, this one neither."""\n',
    "first_report.txt": "What a student sees at first, word for word.\n",
    "first_output.txt": "What the starter prints at first, word for word.\n",
}
SEALED = {  # what is needed at run time
    "harness.py": '"""Public code that runs beside a submission in its rank."""\n',
    "../quiz.toml": "questions = []  # How many ranks does it take to change a bulb?\n",
    "../truth.py": '"""The truth models of this chapter\'s playground."""\n',
}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Write a course of two exercises with all that an instructor's half may hold."""
    root = tmp_path / "instructor"
    for position, slug in ((10, "add_up"), (20, "sum_up")):
        folder = write_exercise(root, slug, position)
        (folder / "README.md").write_text(f"# {slug}\n", encoding="utf-8")
        (folder / "notes.jsonl").write_text("{}\n", encoding="utf-8")
        for name, text in {**HIDDEN, **SEALED}.items():
            path = (root / "reference" / "ch1_numbers" / slug / name).resolve()
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in ("README.md", "playground.py"):
        (root / "exercises" / "ch1_numbers" / name).write_text(f'"""The chapter\'s {name}."""\n', encoding="utf-8")
    return root


@pytest.fixture
def copy(course: Path, tmp_path: Path) -> Path:
    """Write the students' copy as an instructor does, and begin a repository there."""
    folder = tmp_path / "students copy"
    assert cli.main(["release", str(folder)], course) == 0
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def test_the_sealed_file_holds_what_the_grader_needs_and_nothing_else(copy: Path) -> None:
    """Pristine starters, checks, harnesses, hints, quizzes, mechanisms, truth models."""
    one = ["checks.py", "harness.py", "mechanism.toml", "starter.py"]
    exercises = [f"ch1_numbers/{slug}/{name}" for slug in ("add_up", "sum_up") for name in one]
    texts = unseal((copy / NAME).read_bytes())
    assert sorted(texts) == sorted([*exercises, "ch1_numbers/quiz.toml", "ch1_numbers/truth.py"])
    assert texts["ch1_numbers/add_up/starter.py"] == STARTER


def test_references_are_sealed_only_when_asked_for(course: Path, tmp_path: Path) -> None:
    assert cli.main(["release", str(tmp_path / "copy"), "--with-references"], course) == 0
    texts = unseal((tmp_path / "copy" / NAME).read_bytes())
    assert texts["ch1_numbers/add_up/add_up.py"] == REPAIRED
    assert not any("right/" in name or "wrong/" in name for name in texts)


def test_nothing_hidden_can_be_read_in_the_copy(copy: Path) -> None:
    """Neither what is sealed nor what is left out is found in any file, nor in the sealed one by looking."""
    sentences = [*HIDDEN.values(), *SEALED.values(), "Which sign does the second number have?", "return a + b"]
    sentences += [line for line in MECHANISM.splitlines() if len(line) > 20]
    for name, data in files_of(copy).items():
        assert not [sentence for sentence in sentences if sentence.strip().encode() in data], name
    opened = "".join(unseal((copy / NAME).read_bytes()).values())
    assert not [text for text in HIDDEN.values() if text in opened]


def test_the_copy_holds_these_files_beside_exercises_and_grader(copy: Path) -> None:
    names = {name for name in files_of(copy) if not name.startswith(("exercises/", "grader/"))}
    workflow = {".github/workflows/ranklings.yml", ".github/classroom/autograding.json"}
    tools = {"noxfile.py", "pyproject.toml", ".gitattributes", ".gitignore", ".devcontainer/devcontainer.json"}
    assert names == {"README.md", "AGENTS.md", "LICENSE", NAME, "release.json", *workflow, *tools}
    ours = {"README.md", "exercise.toml", "add_up.py"}
    assert {path.name for path in (copy / "exercises" / "ch1_numbers" / "add_up").iterdir()} == ours
    assert not any((copy / "grader" / name).exists() for name in members.INSTRUCTORS)


def test_of_the_real_course_nothing_hidden_is_in_the_copy() -> None:
    """Each hint, promise, explanation, answer and function of the other half, looked for in every file."""
    course = catalog.load_course(CHECKOUT)
    starters = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "exercises").rglob("*.py"))
    hidden = set[str]()
    for path in (CHECKOUT / "reference").rglob("*"):
        if path.suffix in {".py", ".toml", ".md", ".txt"}:
            lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
            hidden |= {line for line in lines if len(line) > 60 and line not in starters}
    files = members.students_copy(CHECKOUT)
    assert len(unseal(files.pop(NAME))) > 3 * len(course)
    known = {line.strip() for data in files.values() for line in data.decode("utf-8").splitlines()}
    lessons = {line for line in hidden & known if line.startswith(("http", "url =", '"http', "from ", "import "))}
    assert not (hidden & known) - lessons


def test_the_students_readme_names_files_and_sessions_that_there_are() -> None:
    """A newcomer's first lines can be pasted as they stand."""
    files = members.students_copy(CHECKOUT)
    readme, sessions = files["README.md"].decode(), files["noxfile.py"].decode()
    paths = re.findall(r"\b(?:exercises|grader|\.github)/[\w./]+\w", readme)
    assert paths
    assert not [path for path in paths if path not in files]
    assert not [name for name in re.findall(r"nox -s (\w+)", readme) if f"def {name}" not in sessions]


def test_a_release_is_the_same_byte_for_byte(course: Path, copy: Path, tmp_path: Path) -> None:
    """Whenever and wherever it is made, and whoever tried the exercises before."""
    repair_notes = course / "exercises" / "ch1_numbers" / "add_up" / "notes.jsonl"
    repair_notes.write_text("{}\n{}\n", encoding="utf-8")
    again = tmp_path / "again"
    assert cli.main(["release", str(again), "--gradescope", str(tmp_path / "1.zip")], course) == 0
    assert files_of(again) == files_of(copy)
    assert cli.main(["release", "--gradescope", str(tmp_path / "2.zip")], course) == 0
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_a_repair_that_an_instructor_tried_is_not_released(
    course: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = ["git", "-C", str(course), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "Begin"]):
        subprocess.run([*git, *command], check=True)
    repair(course / "exercises" / "ch1_numbers" / "sum_up")
    assert cli.main(["release", str(tmp_path / "copy")], course) == 2
    said = "sum_up.py differs from what git has. Commit it, or put it back: git checkout -- '*/sum_up.py'\n"
    assert capsys.readouterr().err == said
    assert not (tmp_path / "copy").exists()


def test_a_folder_that_holds_something_is_not_written_to(
    course: Path, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["release", str(copy)], course) == 2
    assert capsys.readouterr().err == (
        f"{copy} is not empty. Name a new folder, or bring it up to date: --update {copy}\n"
    )
    assert cli.main(["release"], course) == 2


def test_the_copy_is_checked_and_repaired_exercise_by_exercise(course: Path, copy: Path) -> None:
    """A newcomer's way: check, hint, repair with the reference, check; no word of the instructor's half."""
    for place, slug in enumerate(("add_up", "sum_up")):
        before = grader_in(copy, "check")
        assert before.returncode == 1
        assert f"✗ {slug}   check 2 of 3" in before.stdout
        assert f"ch1 · {place} of 2 repaired" in before.stdout
        hint = grader_in(copy, "hint", slug)
        assert "hint 2 of 3: Look at the operator." in hint.stdout
        assert "reference" not in before.stdout + before.stderr + hint.stdout
        here, there = (
            root / half / "ch1_numbers" / slug for root, half in ((copy, "exercises"), (course, "reference"))
        )
        (here / f"{slug}.py").write_bytes((there / f"{slug}.py").read_bytes())
    after = grader_in(copy, "check", "--all", "--jobs", "2")
    assert "All 2 exercises are repaired." in after.stdout
    assert grader_in(copy, "list").stdout.count("✓") == 2


def test_a_repair_in_the_copy_is_counted_without_git(copy: Path) -> None:
    """The starter as it was released is in the sealed file; the count needs the reference."""
    repair(copy / "exercises" / "ch1_numbers" / "add_up")
    assert "you changed" not in grader_in(copy, "check", "add_up").stdout
    texts = unseal((copy / NAME).read_bytes())
    write_folder({f"reference/{name}": text.encode() for name, text in texts.items()}, copy / "opened")
    (copy / "opened" / "reference").rename(copy / "reference")
    (copy / "reference" / "ch1_numbers" / "add_up" / "add_up.py").write_text(REPAIRED, encoding="utf-8")
    assert "you changed 1 line; the reference changes 1" in grader_in(copy, "check", "add_up").stdout


def test_a_students_copy_has_no_verbs_of_an_instructor(copy: Path) -> None:
    assert "audit" not in grader_in(copy, "help").stdout
    refused = grader_in(copy, "release", "x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("`release` is not a verb.")


def test_a_students_copy_has_the_students_sessions(copy: Path) -> None:
    """Nox lists what the copy can do, and nothing that needs the instructor's half."""
    said = python_in(copy, "-m", "nox", "--list")
    assert "* check -> Check your repairs" in said.stdout
    assert not any(f"{name} ->" in said.stdout for name in ("release", "audit", "tests", "grade"))


def test_the_older_form_of_classroom_has_a_test_for_each_exercise(copy: Path) -> None:
    whole = json.loads((copy / ".github" / "classroom" / "autograding.json").read_text(encoding="utf-8"))
    first, second = whole["tests"]
    assert set(first) == {"name", "setup", "run", "input", "output", "comparison", "timeout", "points"}
    assert (second["name"], second["run"], second["points"]) == ("sum_up", "python3 -m nox -s check -- sum_up", 2)

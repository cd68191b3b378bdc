"""`audit`: each rule finds what breaks it, and nothing in an exercise that is in order."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from grader import catalog
from grader.audit import examples
from grader.audit.folders import course_is_in_order
from grader.audit.mutants import mutants
from grader.audit.prove import faults_on_disk
from grader.cli import main
from grader.verbs import new

CHAPTER = "ch1_data_parallel"
ASSUMPTION = "what makes the flaw look right.\nWith a single value, all is well."


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Make a course of one exercise, the pattern of `new` with its marks taken off."""
    for half, pattern in (("exercises", "student"), ("reference", "reference")):
        folder = tmp_path / half / CHAPTER / "my_flaw"
        new.copy_half(new.PATTERN / pattern, folder, {new.SLUG: "my_flaw"})
        for path in folder.rglob("*.*"):
            path.write_text(path.read_text(encoding="utf-8").replace("WRITE: ", ""), encoding="utf-8")
    for name in ("first_output.txt", "first_report.txt"):
        (tmp_path / "reference" / CHAPTER / "my_flaw" / name).write_text("")
    return tmp_path


def faults(root: Path) -> list[str]:
    """Return the lines that `audit` would print of the exercise's files."""
    file = root / "exercises" / CHAPTER / "my_flaw" / "exercise.toml"
    return [problem.shown(root) for problem in faults_on_disk(catalog.load_exercise(root, file), root)]


def edit(root: Path, name: str, old: str, instead: str) -> None:
    """Replace a text of one file of the exercise; names begin at its folders: `student/...` or `reference/...`."""
    half, _, rest = name.partition("/")
    path = root / {"student": "exercises", "reference": "reference"}[half] / CHAPTER / "my_flaw" / rest
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    assert old in text
    path.write_text(text.replace(old, instead, 1) if old else instead + text, encoding="utf-8")


def test_an_exercise_in_order_has_no_faults(course: Path) -> None:
    assert faults(course) == []


@pytest.mark.parametrize(
    ("name", "old", "instead", "fact"),
    [
        ("student/README.md", "# A new exercise", "# Another title", "begins without the title in exercise.toml"),
        ("student/README.md", "## Contract", "## Contracts", "has the headings The story, Your task, Contracts"),
        ("student/README.md", ASSUMPTION, "", "nothing stands"),
        ("student/README.md", "", "# A new exercise\n" * 61, "shorten it to 60"),
        ("student/README.md", "Repair `mean_of`", "See reference/ for `mean_of`", "it names `reference/`"),
        ("student/exercise.toml", "position = 10", "position = 15", "`position` is no multiple of ten"),
        ("student/exercise.toml", "https://", "somewhere ", "`sources` has no link"),
        ("student/exercise.toml", "[1, 2, 4]", "[1]", "`values` has fewer than two values"),
        ("student/exercise.toml", '"mean_of_ones"', '"mean"', "`mean` is no function of harness.py"),
        ("student/my_flaw.py", '"""Average measurements."""', "", "has no docstring; say what the program is for"),
        ("student/my_flaw.py", "import numpy as np", "import numpy as np\nimport grader", "imports `grader`"),
        ("student/my_flaw.py", "    return", "    count = 0\n    return", "ruff's F841 gives the flaw away"),
        ("student/my_flaw.py", "(values: np.ndarray)", "(values)", "in the reference; the two have one contract"),
        ("student/my_flaw.py", '__name__ == "__main__"', "True", "has no example"),
        ("student/stray.txt", "", "x", "is unknown; this folder holds"),
        ("reference/my_flaw.py", "def mean_of", "def other(): ...\n\n\ndef mean_of", "`other` is not in the starter"),
        ("reference/mechanism.toml", "Floating-point addition loses digits.", "The array is read twice.", "three"),
        ("reference/mechanism.toml", "https://example.org/second", "a book", "needs two links to read on"),
        ("reference/mechanism.toml", "One line adds up", "float(values.sum()) / len(values)", "it quotes the repair"),
        ("reference/mechanism.toml", "last_hint =", "latest_hint =", "`last_hint` is missing"),
        ("reference/notes.md", "https://example.org/", "somewhere", "has no link"),
        ("reference/checks.py", "given are still the same afterwards.", "given", "make its promise one sentence"),
        ("reference/checks.py", '("Which line writes into the array that it was given?",)', "()", "0 hints"),
        ("reference/checks.py", "    result", "    assert len(values)\n    result", "this assert has no message"),
        ("reference/checks.py", "    result", "    np.allclose(values, 1)\n    result", "`allclose` overlooks type"),
        ("reference/checks.py", "import numpy as np", "import numpy as np\nimport my_flaw", "imports `my_flaw`"),
        ("reference/checks.py", "@check(", "@chekc(", "is not decorated with @check"),
        ("reference/right/running.py", '"""A running mean, which never holds the sum."""', "", "has no docstring"),
        ("reference/right/list.txt", "", "x", "only Python files belong into `right/`"),
        ("reference/wrong/median.py", "Caught by: check_several_values_share_one_mean", "", "names no check"),
        ("reference/wrong/median.py", "check_several_values", "check_many_values", "which is no check"),
        ("reference/wrong/median.py", "np.median(values))", "np.median(values))  # WRITE: more", "left to write: more"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_one_fact(course: Path, name: str, old: str, instead: str, fact: str) -> None:
    """The line names the file that was broken, and says what to do."""
    edit(course, name, old, instead)
    found = [line for line in faults(course) if fact in line]
    assert len(found) == 1, faults(course)
    assert re.match(r"(exercises|reference)/ch1_data_parallel/my_flaw/\S+:\d+: ", found[0])


@pytest.mark.parametrize("name", ["checks.py", "mechanism.toml", "first_report.txt", "right", "my_flaw.py"])
def test_a_part_that_is_missing_is_named_once(course: Path, name: str) -> None:
    """Whatever else cannot be read without it."""
    path = course / "reference" / CHAPTER / "my_flaw" / name
    for inner in path.iterdir() if path.is_dir() else ():
        inner.unlink()
    path.rmdir() if path.is_dir() else path.unlink()
    assert [line for line in faults(course) if name in line.partition(":")[0]] == [
        f"reference/{CHAPTER}/my_flaw/{name}:1: is missing."
    ]


def test_too_few_wrong_repairs_are_counted(course: Path) -> None:
    (course / "reference" / CHAPTER / "my_flaw" / "wrong" / "median.py").unlink()
    assert any("4 wrong repairs, and an exercise needs at least 5" in line for line in faults(course))


def test_a_half_without_its_twin_is_named(course: Path) -> None:
    """A folder of one half alone would be silently ignored otherwise."""
    (course / "reference" / CHAPTER / "forgotten").mkdir()
    facts = [problem.fact for problem in course_is_in_order(course)]
    assert facts == [f"`exercises/{CHAPTER}/forgotten/` is missing, its other half"]


def test_an_exercise_that_cannot_be_loaded_is_one_line(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It must not hide what is wrong elsewhere, nor be told twice."""
    edit(course, "student/exercise.toml", "points = 1", "pionts = 1")
    assert main(["audit"], course) == 3
    assert capsys.readouterr().out.count("`points` is missing") == 1


def test_an_unknown_exercise_is_wrong_usage(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "my_flow"], course) == 2
    assert "Did you mean `my_flaw`?" in capsys.readouterr().err


def test_an_exercise_in_order_is_proved(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its golden files written, there is nothing to say."""
    assert main(["audit", "my_flaw", "--update"], course) == 0
    folder = f"reference/{CHAPTER}/my_flaw"
    assert capsys.readouterr().out.splitlines() == [
        f"wrote {folder}/first_output.txt",
        f"wrote {folder}/first_report.txt",
        "1 audited, 0 to repair.",
    ]
    assert "expected 3.0" in (course / folder / "first_output.txt").read_text(encoding="utf-8")
    assert "that is the sum" in (course / folder / "first_report.txt").read_text(encoding="utf-8")


def test_a_proof_fails_where_a_submission_does_not_do_what_it_should(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A starter and a wrong repair that pass, a right one that fails, one caught elsewhere, and what follows."""
    edit(course, "student/my_flaw.py", "values.sum()", "values.mean()")
    edit(course, "reference/right/built_in.py", "np.mean", "np.sum")
    edit(course, "reference/wrong/in_place.py", "values /= len(values)", "values = values / len(values)")
    edit(course, "reference/wrong/median.py", "check_several_values_share_one_mean", "check_one_value_is_its_own_mean")
    assert main(["audit", "--thorough", "my_flaw"], course) == 3
    said = capsys.readouterr().out
    assert "my_flaw.py:1: the starter passes every check" in said
    assert (
        said.count("built_in.py:1: fails first at check_several_values_share_one_mean") == 4
    )  # one more: its own seed
    assert "in_place.py:1: passes every check" in said
    assert "median.py:1: fails first at check_several_values_share_one_mean" in said
    assert re.search(r"checks.py:\d+: check_the_values_are_not_changed is the first to catch nothing", said)
    assert "first_report.txt:1: now reads" in said


def test_mutants_that_no_check_notices_are_listed_until_they_are_explained(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An explanation of what a check does notice is out of date, and is named as well."""
    edit(course, "reference/my_flaw.py", "len(values)", "max(len(values), 1)")
    assert main(["audit", "--mutate", "my_flaw"], course) == 3
    said = capsys.readouterr().out
    assert "my_flaw.py:12: `1` -> `0` survives every check" in said
    assert "5 of 6 changes are noticed, 0 explained, 1 left" in said
    reasons = "- `1` -> `0`: there is always one value\n- `a` -> `b`: out of date\n"
    edit(course, "reference/notes.md", "# Notes", f"## Equivalent mutants\n\n{reasons}\n## Notes")
    assert main(["audit", "--mutate", "my_flaw"], course) == 3
    said = capsys.readouterr().out
    assert "`a` -> `b` is explained, but a check notices it" in said
    assert "5 of 6 changes are noticed, 1 explained, 1 left" in said


def test_what_only_the_example_needs_is_not_mutated() -> None:
    """What the checks call is, with all that it needs in turn, and what they only mention in words is not."""
    source = "A, B = 1, 2\nC = 3\ndef f(x):\n    return g(x) + C\ndef g(x):\n    return -x\n"
    source += "def h(x):\n    return A * x\nif __name__ == '__main__':\n    print(h(f(B)))\n"
    lines = {
        mutant.line
        for mutant in mutants(source, 'def check_f(student):\n    """h of A."""\n    student.call("f", 2)\n')
    }
    assert lines == {2, 4, 6}
    assert {mutant.line for mutant in mutants(source)} == {1, 2, 4, 6, 8}


def test_a_mutant_changes_one_value_bearing_place() -> None:
    """Docstrings, annotations, errors and the example stay as they are, and so do the numbers of lines."""
    source = '"""é 1 + 2."""\n\n\ndef f(n: int = 3) -> "1":\n    if n < 0:\n        raise ValueError(1 - 1)\n'
    source += '    return n / 2\n\n\nif __name__ == "__main__":\n    print(f(4) - 1)\n'
    found = list(mutants(source))
    changes = [(mutant.line, mutant.change) for mutant in found]
    assert changes == [
        (4, "`3` -> `4`"),
        (4, "`3` -> `2`"),
        (5, "`n < 0` -> `not n < 0`"),
        (5, "`n < 0` -> `n <= 0`"),
        (5, "`0` -> `1`"),
        (5, "`0` -> `-1`"),
        (7, "`n / 2` -> `n * 2`"),
        (7, "`n / 2` -> `n`"),
        (7, "`2` -> `3`"),
        (7, "`2` -> `1`"),
    ]
    assert {len(mutant.source.splitlines()) for mutant in found} == {11}


def test_every_mutant_is_a_program() -> None:
    """Replaced texts keep their place in longer expressions."""
    for mutant in mutants("x = [1 + 2 * -y ** 2 for y in (a - 1) * b if not c]\nz.wait(group=g)[0 if x else 1] += 1\n"):
        compile(mutant.source, "mutant", "exec")


EXAMPLE = """import os, sys
if __name__ == "__main__":
    if "RANK" in os.environ:
        print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\\n", end="")
        sys.exit(int(os.environ["RANK"]))
    torchrun(["--standalone", "--nproc-per-node", "3", __file__])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the command itself is run")
def test_an_example_gets_the_ranks_that_it_asks_torchrun_for(tmp_path: Path) -> None:
    """All print into one text, and the worst end is told."""
    starter = tmp_path / "sample.py"
    starter.write_text(EXAMPLE, encoding="utf-8")
    printed = examples.printed_by(starter, 0, dict(os.environ))
    assert sorted(printed.splitlines()) == ["(exit code 2)", "rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]
    assert printed.endswith("(exit code 2)\n")
    starter.write_text("import os\nprint('alone', 'RANK' in os.environ, __name__)\n", encoding="utf-8")
    assert examples.printed_by(starter, 0, dict(os.environ)) == "alone False __main__\n"

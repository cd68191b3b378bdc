"""Write a small class of real files: three exercises, and twelve hand-ins of every kind that comes in."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fake_course import REPAIRED, STARTER, write_exercise
from grader import cli

CLASS_SEED = "--seed=11"
SLUGS = ("add_up", "sum_up", "put_together")
PACKAGE = Path(cli.__file__).parent
TIMES = REPAIRED.replace("a + b", "a * b")  # equals the sum of 2 and 2, and of nothing else here
TIMES_TOO = "def add(a, b):\n    # another way to write it\n    return b * a\n"
HANGS = "while True: pass\n"  # on one line, so that it is always seen on the same
DIES = "import os\nos._exit(0)\n"
WRITES = """
import os
from pathlib import Path
for path in ("{victim}", "{out}/results.sqlite", "{out}/grades.csv"):
    try: Path(path).write_text("forged")
    except OSError: pass
os._exit(0)
"""
HELD_OUT = '''"""Never released."""

from grader.judging import assert_equal, check


@check(hints=("Three numbers?",))
def check_negative_numbers(student):
    """Negative numbers are added, too."""
    assert_equal(student.call("add", -5, -2).value, -7, "add(-5, -2)")
'''
WRONG_DOCSTRING = '"""Addition is repeated, so it is multiplication.\n\nCaught by: check_two_numbers_are_added\n"""\n'

# Who hands in what, and how each of the three exercises then stands.
STANDINGS = {
    "alice": ("repaired", "repaired", "repaired"),
    "bob": ("untouched starter",) * 3,
    "carol": ("wrong in a known way", "repaired", "wrong in another way"),
    "dora": ("nothing to grade",) * 3,
    "emil": ("wrong in another way", "repaired", "repaired"),
    "fatma": ("wrong in another way", "wrong in another way", "repaired"),
    "goran": ("wrong in another way", "nothing to grade", "nothing to grade"),
    "hana": ("nothing to grade", "repaired", "repaired"),
    "ivan": ("repaired", "repaired", "wrong in a known way"),
    "jin": ("repaired", "nothing to grade", "repaired"),
    "kofi": ("nothing to grade",) * 3,
    "lena": ("wrong in another way", "wrong in another way", "repaired"),
}


def write_course(root: Path) -> Path:
    """Write three exercises with short limits, a known wrong repair and a held-out check."""
    for place, slug in enumerate(SLUGS, 1):
        write_exercise(root, slug, 10 * place, more="[limits]\ntimeout_s = 3.0\n")
        reference = root / "reference" / "ch1_numbers" / slug
        (reference / "wrong").mkdir()
        (reference / "wrong" / "times.py").write_text(WRONG_DOCSTRING + TIMES, encoding="utf-8")
    (root / "reference" / "ch1_numbers" / "add_up" / "held_out.py").write_text(HELD_OUT, encoding="utf-8")
    (root / "grader").symlink_to(PACKAGE)
    return root


def program(home: Path, slug: str) -> Path:
    """Return where a hand-in has the program of an exercise."""
    return home / "exercises" / "ch1_numbers" / slug / f"{slug}.py"


def hand_in(home: Path, sources: Iterable[str | bytes] = (REPAIRED,) * 3) -> Path:
    """Write a hand-in with these programs."""
    for slug, source in zip(SLUGS, sources, strict=True):
        program(home, slug).parent.mkdir(parents=True)
        program(home, slug).write_bytes(source if isinstance(source, bytes) else source.encode())
    return home


def write_class(folder: Path, victim: Path) -> Path:
    """Write the twelve; `victim` is a file of the instructor's that must stay as it is."""
    forging = WRITES.replace("{victim}", str(victim)).replace("{out}", f"{folder}-grades")
    hand_in(folder / "alice")
    hand_in(folder / "bob", [STARTER, STARTER.replace("\n", "\r\n"), "\ufeff" + STARTER])
    hand_in(folder / "carol", [TIMES_TOO, REPAIRED, "def add(a, b):\n    return 2\n"])
    (folder / "dora").mkdir()
    hand_in(folder / "emil", [HANGS, REPAIRED, REPAIRED])
    hand_in(folder / "fatma", [DIES, "def add(a, b:\n", REPAIRED])
    hand_in(folder / "goran", ["", b"x = 1\n" * 400_000, b"\x00\x01\x02"])
    hand_in(folder / "hana")
    program(folder / "hana", "add_up").rename(program(folder / "hana", "add_up").with_name("add_up_final.py"))
    packed(hand_in(folder / "ivan", [REPAIRED, REPAIRED, TIMES]), zip_folder)
    packed(hand_in(folder / "jin", [REPAIRED, "", REPAIRED]), tar_folder, without="sum_up.py")
    (folder / "kofi.zip").write_bytes(b"PK\x03\x04 and nothing more")
    hand_in(folder / "lena", [forging, forging, REPAIRED])
    return folder


def packed(home: Path, pack: Callable[[Path, str], None], without: str = "-") -> None:
    """Put an archive in a folder's place."""
    pack(home, without)
    subprocess.run(["rm", "-r", str(home)], check=True)


def zip_folder(home: Path, without: str = "-") -> None:
    """Pack a folder as GitHub does: everything below one folder."""
    with zipfile.ZipFile(f"{home}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(home.rglob("*")):
            if path.name != without:
                archive.write(path, Path("repository-main", path.relative_to(home)))


def tar_folder(home: Path, without: str = "-") -> None:
    """Pack a folder as people do."""
    with tarfile.open(f"{home}.tar.gz", "w:gz") as archive:
        archive.add(home, home.name, filter=lambda entry: None if entry.name.endswith(without) else entry)


def command(*arguments: object) -> list[str]:
    """Return the command line that grades, for the course's folder."""
    return [sys.executable, "-m", "grader", "grade", *map(str, arguments)]


def grade(course: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Grade as an instructor does."""
    environment = {**os.environ, "PYTHONUTF8": "1"}
    return subprocess.run(
        command(*arguments), cwd=course, env=environment, capture_output=True, encoding="utf-8", check=False
    )


def out_of(folder: Path) -> Path:
    """Return where the results of a class are by default."""
    return folder.with_name(f"{folder.name}-grades")


def graded_works(done: subprocess.CompletedProcess[str]) -> int:
    """Return how many works a run graded."""
    counts = re.findall(r"^grading: (\d+) of", done.stderr, re.MULTILINE)
    return int(counts[-1]) if counts else 0


def read_grades(out: Path) -> dict[str, Any]:
    """Return grades.json without what differs from run to run: times, and where a hang was seen at its end."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            value = value | {"message": "", "line": 0} if value.get("kind") == "timeout" else value
            return {key: timeless(each) for key, each in value.items() if key not in {"seconds", "graded_at"}}
        return [timeless(each) for each in value] if isinstance(value, list) else value

    grades: dict[str, Any] = timeless(json.loads((out / "grades.json").read_text(encoding="utf-8")))
    return grades


def standings(out: Path) -> dict[str, tuple[str, ...]]:
    """Return how each exercise of each student stands."""
    students = read_grades(out)["students"]
    return {each["student"]: tuple(exercise["standing"] for exercise in each["exercises"]) for each in students}

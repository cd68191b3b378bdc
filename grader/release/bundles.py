"""Pack the students' copy for services that grade with it: nothing in a bundle is more hidden than there."""

from __future__ import annotations

from grader.release.members import PACKAGE, Files

COURSE = "course"


def gradescope(copy: Files, visibility: str) -> Files:
    """Return what Gradescope unpacks into /autograder/source: how to install, how to run, and the course."""
    return {**_with(copy, "gradescope", ("setup.sh", "run_autograder")), "visibility.txt": f"{visibility}\n".encode()}


def classroom50(copy: Files) -> Files:
    """Return the folder `CLASSROOM/autograders/ASSIGNMENT/`: the program that is run, and the course beside it."""
    return _with(copy, "classroom50", ("autograder.py",))


def _with(copy: Files, template: str, names: tuple[str, ...]) -> Files:
    folder = PACKAGE / "templates" / template
    return {
        **{name: (folder / name).read_bytes() for name in names},
        **{f"{COURSE}/{name}": data for name, data in copy.items()},
    }

"""Write the students' copy, bring a student's repository up to date, pack the copy for Gradescope or Classroom 50."""

from __future__ import annotations

import argparse
from pathlib import Path

from grader.errors import UsageError
from grader.release import bundles, update
from grader.release.members import students_copy
from grader.release.writing import write_folder, write_zip
from grader.report.gradescope import VISIBILITIES


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="where to write the students' copy")
    parser.add_argument(
        "--update", action="store_true", help="DIR is a student's repository: bring it up to date, keep their work"
    )
    parser.add_argument("--with-references", action="store_true", help="seal the references, too, for `explain`")
    parser.add_argument("--gradescope", type=Path, metavar="F.zip", help="write an autograder to upload to Gradescope")
    parser.add_argument("--visibility", choices=VISIBILITIES, default="visible", help="when Gradescope shows results")
    parser.add_argument("--classroom50", type=Path, metavar="DIR", help="write the folder of a Classroom 50 autograder")


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Write what was asked for and say, in sentences, what was written."""
    if not (arguments.folder or arguments.gradescope or arguments.classroom50):
        raise UsageError("Name a folder for the students' copy, or --gradescope F.zip, or --classroom50 DIR.")
    if arguments.update and not arguments.folder:
        raise UsageError("Name the student's repository: --update DIR")
    files = students_copy(root, with_references=arguments.with_references)
    if arguments.folder and arguments.update:
        for sentence in update.update(arguments.folder, files):
            print(sentence)
    elif arguments.folder:
        write_folder(files, arguments.folder)
        print(f"Wrote the students' copy: {len(files)} files in {arguments.folder}")
        print(f"try it: cd {arguments.folder} && git init && nox -s check")
    if arguments.gradescope:
        write_zip(bundles.gradescope(files, arguments.visibility), arguments.gradescope)
        print(f"Wrote the autograder for Gradescope: {arguments.gradescope}")
    if arguments.classroom50:
        write_folder(bundles.classroom50(files), arguments.classroom50)
        print(f"Wrote the autograder for Classroom 50: {arguments.classroom50}")
    return 0

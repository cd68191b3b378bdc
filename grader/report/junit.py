"""Write a report as JUnit XML: a testsuite for each exercise, a testcase for each check."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from grader.records import CheckResult, ExerciseResult, Outcome, Report
from grader.report.as_json import replace_file
from grader.safe_text import for_xml, tail

MESSAGE_LIMIT = 2000


def write(report: Report, path: Path) -> None:
    """Replace the file at `path` with this report."""
    tree = to_xml(report)
    ET.indent(tree)
    replace_file(path, '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(tree, "unicode") + "\n")


def to_xml(report: Report) -> ET.Element:
    """Return the report as an element `testsuites`."""
    suites = ET.Element("testsuites", name="ranklings")
    for result in report.results:
        suites.append(_suite(result))
    for count in ("tests", "failures", "errors", "skipped"):
        suites.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    return suites


def _suite(result: ExerciseResult) -> ET.Element:
    slug = result.submission.exercise.slug
    suite = ET.Element("testsuite", name=slug, time=f"{result.seconds:.3f}")
    cases = [_case(check, result) for check in result.checks]
    if result.first_failure is None and result.outcome is not Outcome.PASSED:  # nothing could run: say why
        cases.insert(0, _told(slug, result.outcome, result.message, _classname(result), 0.0))
    suite.extend(cases)
    suite.set("tests", str(len(cases)))
    for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
    return suite


def _case(check: CheckResult, result: ExerciseResult) -> ET.Element:
    case = _told(check.promise.name, check.outcome, check.message, _classname(result), check.seconds)
    if check.output.strip():
        ET.SubElement(case, "system-out").text = for_xml(tail(check.output))
    return case


def _told(name: str, outcome: Outcome, message: str, classname: str, seconds: float) -> ET.Element:
    case = ET.Element("testcase", name=name, classname=classname, time=f"{seconds:.3f}")
    message = for_xml(message, MESSAGE_LIMIT)
    if outcome is Outcome.NOT_RUN:
        ET.SubElement(case, "skipped", message=message or "not run")
    elif outcome is not Outcome.PASSED:
        tag = "failure" if outcome is Outcome.FAILED else "error"
        ET.SubElement(case, tag, message=message.partition("\n")[0]).text = message
    return case


def _classname(result: ExerciseResult) -> str:
    exercise = result.submission.exercise
    return f"ranklings.ch{exercise.chapter}.{exercise.slug}"

"""Text of a submission is shown, never obeyed."""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.safe_text import clean, did_you_mean, escape, for_csv, for_html, for_markdown, for_xml, gutter, tail

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("50 %\r100 %", "50 %\\x0d100 %"),
        ("one\r\ntwo\n", "one\ntwo\n"),
        ("a\tb", "a\tb"),
        ("\x7f\x9b1A", "\\x7f\\x9b1A"),
        ("\u202egnorw\u200b\ufeff", "\\u202egnorw\\u200b\\ufeff"),
        ("\u2028\ud800\U000e0041", "\\u2028\\ud800\\U000e0041"),
        ("naïve ✓ 猫", "naïve ✓ 猫"),
    ],
)
def test_what_has_no_shape_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("line", ["::set-output name=a::b", "  ::error::x", "\xa0\t::add-mask::a", "done ##[error]x"])
def test_no_line_is_a_workflow_command(line: str) -> None:
    """GitHub's runner trims a line before it looks for `::`, and finds `##[` anywhere."""
    for shown in clean(f"{line}\n{line}").split("\n"):
        assert not shown.strip().startswith("::")
        assert "##[" not in shown


@given(ANY_TEXT)
def test_no_text_keeps_a_control_character(text: str) -> None:
    """Whatever is printed, it can be encoded, and no control but line end and tab is left."""
    shown = clean(text)
    shown.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", shown)
    assert not any(line.strip().startswith("::") for line in shown.split("\n"))


def test_a_long_text_is_cut_and_says_so() -> None:
    shown = clean("x" * 5000)
    assert shown.startswith("x" * 4000 + "\n[cut here: 5000 characters in all")
    assert clean("line\n" * 300).endswith("[cut here: 301 lines, 1500 characters in all]")
    assert len(clean("\x00" * 10**6)) < 4100


def test_of_printed_output_the_end_is_kept() -> None:
    printed = "".join(f"step {n}\n" for n in range(100))
    first, *rest = tail(printed).split("\n")
    assert first == "[the end of 100 lines, 789 characters]"
    assert rest == [f"step {n}" for n in range(80, 100)]
    assert tail("short\n\n") == "short"
    assert len(tail("y" * 10**6)) < 4100


def test_every_line_stands_behind_the_gutter() -> None:
    assert gutter("a\n\n::b") == "  | a\n  | \n  | ::b"


@given(ANY_TEXT)
def test_xml_with_any_text_is_well_formed(text: str) -> None:
    element = ET.Element("failure", message=for_xml(text))
    element.text = for_xml(text)
    ET.fromstring(ET.tostring(element, "unicode"))


@given(st.text(st.sampled_from("`\n a"), max_size=60))
def test_markdown_cannot_close_its_fence(text: str) -> None:
    first, *inside, last = for_markdown(text).split("\n")
    assert first == f"{last}text"
    assert set(last) == {"`"}
    assert not any(last in line for line in inside)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"])
def test_a_spreadsheet_sees_no_formula(text: str) -> None:
    file = io.StringIO()
    csv.writer(file).writerow([for_csv(text)])
    (cell,) = next(csv.reader(io.StringIO(file.getvalue())))
    assert cell.startswith("'")
    assert for_csv("plain") == "plain"


def test_html_has_no_element_of_a_submission() -> None:
    assert for_html('<b a="1">&\'\x1b') == "&lt;b a=&quot;1&quot;&gt;&amp;&#x27;\\x1b"


def test_a_near_word_is_offered_and_a_far_one_is_not() -> None:
    assert did_you_mean("chekc", ["check", "list"]) == " Did you mean `check`?"
    assert did_you_mean("xyz", ["check", "list"]) == ""


def test_a_backslash_that_was_there_stays_as_it_is() -> None:
    assert escape(r"C:\temp") == r"C:\temp"

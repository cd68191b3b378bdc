"""Claims about the interactive pages, tried in a real browser."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from conftest import PATIENCE_MS, ROOT, Course
from grader.records import Call, Talk
from grader.report.trace import to_trace

expect.set_options(timeout=PATIENCE_MS)

# chapter, panel, a control and what to set it to, what the picture then says
PANELS = [
    (1, "workers", "communication that each added worker brings (ms)", "19", "on 2 of 16 workers"),
    (1, "ring", "ranks", "8", "14 rounds, each rank sends at most 1\u202f750 kB"),
    (1, "weighting", "rank 1, micro-batch 3 (tokens)", "40", "weighs 20 times as much"),
    (1, "scale", "ranks", "4", "The gradient is 4 times the right one"),
    (2, "layer", "hidden size (features)", "1024", "On 8 each rank sends 29.4 MB"),
    (3, "pipeline", "micro-batches", "16", "1F1B takes 57 ms"),
    (4, "memory", "parameters (billions)", "13", "each of 64 ranks holds 39.1 GB"),
    (5, "scaling", "compute, as a power of ten (log10 FLOPs)", "21", "50.1 tokens a parameter"),
    (5, "strategy", "GPUs in a node (GPUs)", "4", "data 32, tensor 4, pipeline 4"),
]
SLUGS = {"workers": "profile_one_worker", "weighting": "token_weighted_loss", "pipeline": "one_forward_one_backward"}


def guess(page: Page, number: str, reason: str = "") -> None:
    """Fill in the form and send it."""
    page.get_by_role("textbox").nth(0).fill(number)
    page.get_by_role("textbox").nth(1).fill(reason)
    page.get_by_role("button", name="Show me").click()


def reading(page: Page) -> Locator:
    """Return the sentence above the drawings."""
    return page.locator(".pg-reading")


def box(page: Page, label: str) -> Locator:
    """Return the box in which a control's number can be typed."""
    return page.get_by_role("textbox", name=f"{label} value input", exact=True)


@pytest.mark.parametrize(("chapter", "panel", "control", "value", "words"), PANELS, ids=[each[1] for each in PANELS])
def test_a_panel_asks_first_then_shows_then_follows_its_controls(
    course: Course, page: Page, chapter: int, panel: str, control: str, value: str, words: str
) -> None:
    page.goto(f"{course.url}/ch{chapter}/?panel={panel}")
    expect(page.get_by_text("The picture appears when you have guessed")).to_be_visible()
    assert page.locator(".pg-figure").count() == 0
    guess(page, "7", "seven of nine")
    expect(page.get_by_text("You guessed 7")).to_be_visible()
    expect(page.locator(".pg-figure").first).to_be_visible()
    before = reading(page).inner_text()
    box(page, control).fill(value)
    box(page, control).press("Enter")
    expect(reading(page)).to_contain_text(words)
    assert reading(page).inner_text() != before
    expect(page).to_have_url(re.compile(rf"[?&]\w+={value}(\.0)?(&|$)"))
    page.get_by_text("The same as a table").click()
    expect(page.locator("td").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 800
    slug = re.search(r"check -- (\w+)", page.locator(".pg code").first.inner_text())
    assert slug
    kept = [json.loads(line) for line in (course.file(slug[1]).parent / "notes.jsonl").read_text().splitlines()]
    mine = [event for event in kept if event.get("code") == f"panel:{panel}"]
    assert [event["kind"] for event in mine] == ["prediction", "result"]
    assert (mine[0]["guess"], mine[0]["reason"]) == ("7", "seven of nine")


def test_a_repaired_file_changes_its_curve_and_a_broken_one_is_a_sentence(course: Course, page: Page) -> None:
    slug = SLUGS["pipeline"]
    starter = course.file(slug).read_text()
    page.goto(f"{course.url}/ch3/?panel=pipeline")
    if page.get_by_text("You guessed").count() == 0:
        guess(page, "33")
    expect(reading(page)).to_contain_text("Yours stops")
    expect(page.get_by_role("img", name="Who waits for whom in yours")).to_be_visible()
    course.file(slug).write_bytes(course.repaired(slug).read_bytes())
    expect(reading(page)).to_contain_text("Yours takes 33 ms")
    course.file(slug).write_text("def schedule(rank ranks")
    expect(page.locator(".pg-yours-note")).to_contain_text(f"{slug}.py has a syntax error")
    expect(reading(page)).to_contain_text("1F1B takes 33 ms")
    course.file(slug).write_text(starter)
    expect(reading(page)).to_contain_text("Yours stops")


def test_an_address_sets_the_controls(course: Course, page: Page) -> None:
    page.goto(f"{course.url}/ch1/?panel=workers&compute_ms=200&added_ms=0&overlap_percent=5&loader_ms=1e9")
    if page.get_by_text("You guessed").count() == 0:
        guess(page, "1")
    expect(reading(page)).to_contain_text("takes 12.5 ms, on 16 of 16 workers")
    expect(box(page, "computation of the whole batch (ms)")).to_have_value("200")


def test_the_keyboard_moves_a_slider(course: Course, page: Page) -> None:
    page.goto(f"{course.url}/ch1/?panel=weighting&tokens_a=8&tokens_b=8&tokens_c=8&tokens_d=8")
    guess(page, "1")
    expect(reading(page)).to_contain_text("weighs 1 times")
    slider = page.get_by_role("slider").first
    slider.focus()
    for _ in range(8):
        slider.press("ArrowRight")
    expect(reading(page)).to_contain_text("weighs 2 times")


def test_no_number_is_no_guess(course: Course, page: Page) -> None:
    page.goto(f"{course.url}/ch1/?panel=scale")
    guess(page, "a lot")
    expect(page.get_by_text("Give a number first").first).to_be_visible()


def test_in_the_dark_words_stand_out(course: Course, chromium: Browser) -> None:
    page = chromium.new_page(color_scheme="dark")
    page.goto(f"{course.url}/ch1/?panel=workers")
    heading = page.locator(".pg h1")
    expect(heading).to_be_visible(timeout=PATIENCE_MS)
    ink = heading.evaluate("each => getComputedStyle(each).color")
    ground = page.locator("body").evaluate("each => getComputedStyle(each).backgroundColor")
    assert contrast(ink, ground) > 7, (ink, ground)
    page.close()


def contrast(one: str, other: str) -> float:
    """Return the ratio of the luminances of two colours, as WCAG defines it."""
    lights = []
    for colour in (one, other):
        parts = [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_an_exercise_can_be_read_and_leads_back(course: Course, page: Page) -> None:
    page.goto(f"{course.url}/exercise/{SLUGS['workers']}")
    expect(page.get_by_role("heading", name="Your task")).to_be_visible()
    link = page.locator('a[href*="panel=workers"]')
    assert link.get_attribute("href", timeout=1000)


def test_a_trace_of_a_check_is_drawn(course: Course, page: Page) -> None:
    call = Call(0, "send", (0, 1), peer=1, payload_bytes=8, end_s=1e-6, completed=True)
    waiting = Call(1, "recv", (0, 1), peer=1, posted_s=1e-6)
    answer = Call(0, "recv", (0, 1), peer=0, payload_bytes=8, end_s=1e-6, completed=True)
    talk = Talk("answer", "simulated", ((call, waiting), (answer,)))
    trace = course.root / "trace.json"
    trace.write_text(json.dumps(to_trace([("two ranks", talk)])))
    page.goto(f"{course.url}/trace")
    page.get_by_label("Trace").set_input_files(trace)
    page.get_by_role("button", name="Draw").click()
    drawn = page.get_by_role("img", name="two ranks")
    expect(drawn).to_be_visible()
    expect(drawn).to_contain_text("recv (never ended)")


def test_strangers_get_no_answer(course: Course) -> None:
    """A page of another site can neither reach this one by a name of its own nor speak through the reader's browser."""
    for header, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
        request = urllib.request.Request(f"{course.url}/ch1/", headers={header: value})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request)
    assert urllib.request.urlopen(f"{course.url}/exercise/ring_all_reduce").status == 200


def test_the_address_in_the_readmes_is_the_servers_own() -> None:
    from grader.playground.server import HOST, PORT

    pages = ROOT.glob("exercises/*/*/README.md")
    links = [link for file in pages for link in re.findall(r"\(http://127\.[^)]*\)", file.read_text("utf-8"))]
    assert links
    assert all(re.match(rf"\(http://{re.escape(HOST)}:{PORT}/ch\d/\?panel=\w+&", link) for link in links)

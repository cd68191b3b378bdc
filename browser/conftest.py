"""A server on a copy of the course, a browser, and pages that watch what happens in them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000  # for one thing to appear; how fast it does is not what these tests are about


@dataclass(frozen=True)
class Course:
    """Hold a served copy of the course."""

    root: Path
    url: str

    def file(self, slug: str) -> Path:
        """Return a learner's file."""
        (found,) = self.root.glob(f"exercises/ch*_*/{slug}/{slug}.py")
        return found

    def repaired(self, slug: str) -> Path:
        """Return the repaired one."""
        (found,) = self.root.glob(f"reference/ch*_*/{slug}/{slug}.py")
        return found


@dataclass
class Watched:
    """Hold a page, and what must not happen in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note errors, and every request that does not stay on the loopback address."""
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("websocket", lambda socket: self._asked(socket.url))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, url: str) -> None:
        if urlsplit(url).scheme not in {"data", "blob"} and urlsplit(url).hostname != "127.0.0.1":
            self.abroad.append(url)


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """Serve a copy, so that guesses and repairs of these tests stay out of the checkout."""
    root = tmp_path_factory.mktemp("course")
    for name in ("exercises", "reference", "grader"):
        unwanted = shutil.ignore_patterns("notes.jsonl", "__pycache__")
        shutil.copytree(ROOT / name, root / name, ignore=unwanted)
    command = [sys.executable, "-m", "grader", "playground", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line + server.stdout.read()
        yield Course(root, found[0])
        server.terminate()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Start the browser of this machine."""
    with sync_playwright() as playwright:
        try:
            browser = launch(playwright)
        except Error as error:
            words = f"No browser was found: install Chromium or Chrome ({str(error).splitlines()[0]})."
            if os.environ.get("RANKLINGS_BROWSER") == "required":
                pytest.fail(words)
            pytest.skip(words)
        yield browser
        browser.close()


def launch(playwright: Playwright) -> Browser:
    """Start Chromium as the system has it, else Chrome; nothing is downloaded, and no name is looked up."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    options = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", *(["--no-sandbox"] if as_root else [])]
    if path:
        return playwright.chromium.launch(executable_path=path, args=options)
    return playwright.chromium.launch(channel="chrome", args=options)


@pytest.fixture(scope="session")
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """Share one window, whose cache keeps what the pages load."""
    context = chromium.new_context(viewport={"width": 800, "height": 1200})
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def watched(window: BrowserContext) -> Iterator[Watched]:
    """Open an empty page; afterwards, nothing may have gone wrong in it, nor left this machine."""
    watched = Watched(window.new_page())
    watched.watch()
    yield watched
    watched.page.close()
    assert watched.errors == []
    assert watched.abroad == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """Return the page itself."""
    return watched.page

"""Serve the chapters' pages on this machine's loopback address, and nothing to anybody else."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader import catalog
from grader.errors import UsageError
from grader.playground import timeline
from grader.playground.theme import STYLE

HOST, PORT = "127.0.0.1", 2718
CHAPTER = re.compile(r"ch(\d+)_\w+")
# No updates looked for, nothing told to anybody.
OFFLINE = {"MARIMO_SKIP_UPDATE_CHECK": "1", "DO_NOT_TRACK": "1"}
# marimo writes the markup of a label into aria-label, where a screen reader would read the tags out.
PLAIN_LABELS = """<script>
function plainLabels(root) {
  for (const each of root.querySelectorAll("*")) {
    const label = each.getAttribute("aria-label");
    if (label && label.includes("<span")) each.setAttribute("aria-label", label.replace(/<[^>]*>/g, ""));
    if (each.shadowRoot) plainLabels(each.shadowRoot);
  }
}
setInterval(() => plainLabels(document), 700);
</script>"""
CSP = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"
FORM = """<h1>Timeline of a run</h1>
<p>What the ranks said to each other, from a file that <code>nox -s check -- SLUG --trace trace.json</code> wrote.
The same file opens in Perfetto and in <code>chrome://tracing</code>.</p>
<form method="post" enctype="multipart/form-data"><p><label>Trace <input type="file" name="trace" required></label>
<button>Draw</button></p></form>"""


def chapters(root: Path) -> dict[int, Path]:
    """Return the app of each chapter that has one."""
    found = {}
    for file in sorted((root / "exercises").glob("ch*_*/playground.py")):
        if match := CHAPTER.fullmatch(file.parent.name):
            found[int(match[1])] = file
    return found


def serve(root: Path, chapter: int, port: int, *, browser: bool) -> None:
    """Serve until interrupted."""
    os.environ.update(OFFLINE)
    import uvicorn

    listening = listen(port)
    url = f"http://{HOST}:{listening.getsockname()[1]}/ch{chapter}/"
    print(f"The playground is open at {url}\nIt draws your files as you save them. Ctrl-C ends it.", flush=True)
    if browser:
        webbrowser.open(url)
    config = uvicorn.Config(
        build(root, chapter, listening.getsockname()[1]), log_level="error", timeout_graceful_shutdown=1
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback address only."""
    listening = socket.socket()
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from now on a browser waits until the pages are there
    except OSError as error:
        listening.close()
        raise UsageError(
            f"Port {port} is taken ({error.strerror}). Is a playground open already? Else: --port 0"
        ) from None
    return listening


def build(root: Path, chapter: int, port: int) -> Any:
    """Return the web application: a page for each chapter, the exercises' texts, and no answer to strangers."""
    import marimo
    from starlette.applications import Starlette
    from starlette.responses import RedirectResponse
    from starlette.routing import Mount, Route

    builder = marimo.create_asgi_app(quiet=True, include_code=False, html_head=PLAIN_LABELS)
    for number, file in chapters(root).items():
        builder = builder.with_app(path=f"/ch{number}", root=str(file))
    routes = [
        Route("/", lambda _request: RedirectResponse(f"/ch{chapter}/")),
        Route("/exercise/{slug}", lambda request: readme(root, request.path_params["slug"])),
        Route("/trace", trace, methods=["GET", "POST"]),
        Mount("/", builder.build()),
    ]
    return only_from_here(Starlette(routes=routes), (f"{HOST}:{port}", f"localhost:{port}"))


def readme(root: Path, slug: str) -> Any:
    """Return an exercise's README as a page without any script."""
    from markdown import Markdown
    from starlette.responses import HTMLResponse

    course = {exercise.slug: exercise for exercise in catalog.load_course(root)}
    if slug not in course:
        return HTMLResponse("There is no such exercise.", 404)
    text = (course[slug].student_dir / "README.md").read_text("utf-8")
    writer = Markdown(extensions=["tables", "fenced_code", "sane_lists"])
    writer.preprocessors.deregister("html_block")
    writer.inlinePatterns.deregister("html")
    return plain_page(slug, writer.convert(text))


async def trace(request: Any) -> Any:
    """Draw the trace that was handed in, after a form for the next one."""
    drawn = ""
    if request.method == "POST":
        async with request.form(max_files=1, max_fields=1, max_part_size=timeline.MOST_BYTES) as form:
            file = form.get("trace")
            drawn = timeline.page(timeline.read(await file.read()) if hasattr(file, "read") else "Choose a file first.")
    return plain_page("Timeline of a run", FORM + drawn)


def plain_page(title: str, content: str) -> Any:
    """Return a page in our style that may run no script and load nothing."""
    from starlette.responses import HTMLResponse

    head = f'<meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{title}</title>'
    body = f'<body class="pg-page"><main class="pg">{content}</main></body>'
    page = f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head>{body}</html>'
    return HTMLResponse(page, headers={"Content-Security-Policy": CSP})


def only_from_here(app: Any, hosts: Sequence[str]) -> Any:
    """Refuse what another site's page sends through the reader's browser: a foreign Host or Origin."""
    origins = {f"http://{host}" for host in hosts}

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in {"http", "websocket"}:
            headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
            if headers.get(b"host") not in hosts or headers.get(b"origin") not in {None, *origins}:
                await _refuse(scope, send)
                return
        await app(scope, receive, send)

    return guarded


async def _refuse(scope: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"This page is for the machine it runs on."})

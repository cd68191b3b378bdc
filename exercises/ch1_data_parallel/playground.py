# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 1: nox -s playground -- 1."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: data parallelism")

with app.setup:
    from grader.playground import Area, Axis, Line, Mark, Panel, Picture, Question, Slider, Table, chart
    from grader.playground.page import Page


@app.function
def your_workers(student, settings):
    """Ask best_workers how many of 1 to 16 workers to use."""
    alone = {
        "step_s": settings["compute_ms"] / 1e3, "spread_s": 1e-4, "samples_per_s": 8e3 / settings["compute_ms"],
        "peak_bytes": 6_100_000_000, "stable": True,
    }  # fmt: skip
    added_s = settings["added_ms"] * (1 - settings["overlap_percent"] / 100) / 1e3
    chosen = [student.call("best_workers", alone, {"workers": k, "added_worker_s": added_s}).value for k in range(1, 17)]
    if not all(type(each) is int and 1 <= each <= k for k, each in enumerate(chosen, 1)):
        raise ValueError("not a number of workers")
    return chosen


@app.function
def draw_workers(settings, truth, yours):
    """Stack the parts of a step, and draw the speed-up beside the ideal one."""
    workers, step = truth["workers"], truth["step"]
    floor = [0.0] * len(workers)
    tops = [truth["compute"], [a + b for a, b in zip(truth["compute"], truth["loader"])], step]
    areas = [
        Area(name, workers, low, high, look)
        for name, low, high, look in zip(("computation", "loader", "communication"), (floor, *tops), tops, "aeb")
    ]
    lines = [Line("best of so many", workers, [step[k - 1] for k in truth["best"]], "truth", dots=True)]
    speeds = [Line("ideal", workers, workers, "ideal"), Line("real", workers, truth["speedup"], "truth", dots=True)]
    best = truth["best"][-1]
    marks = [Mark(f"best: {best}", best, truth["speedup"][best - 1])]
    reading = f"The shortest step is {step[best - 1]:.1f} ms, on {best} of 16 workers: {truth['speedup'][best - 1]:.2f} times as fast as one."
    if yours:
        lines.append(Line("as your best_workers", workers, [step[k - 1] for k in yours], "yours", dots=True))
        reading += f" Your best_workers takes {yours[-1]}, and its step {step[yours[-1] - 1]:.1f} ms."
    x = Axis("workers", 1, 16, ticks=[1, 2, 4, 6, 8, 10, 12, 14, 16])
    return Picture(
        figures=[
            (
                chart("Step time against workers", lines, x, Axis("one step of the same batch, ms"), areas=areas),
                "What a step is made of. Dashed: as many of the workers offered as your function takes.",
            ),
            (
                chart(
                    "Speed-up against workers", speeds, Axis("workers", 1, 16, log=True, ticks=[1, 2, 4, 8, 16]),
                    Axis("times as fast as one worker", 1 / 16, 16, log=True, ticks=[1 / 16, 1 / 4, 1, 4, 16]),
                    marks=marks, below=(1, "slower than one worker alone"), height=290,
                ),
                "The dotted line is what the number of workers promises.",
            ),
        ],
        reading=reading,
        table=Table(
            ("workers", "computation, ms", "loader, ms", "communication, ms", "step, ms", "speed-up", "best of so many", "yours"),
            list(zip(workers, truth["compute"], truth["loader"], truth["communication"], step, truth["speedup"], truth["best"], yours or ["–"] * 16)),
        ),
    )  # fmt: skip


@app.cell
def _():
    workers = Panel(
        name="workers",
        title="Step time against workers",
        exercise="profile_one_worker",
        story="""
Workers share the computation of a batch. Nobody shares the communication, and often nobody shares the loader. Try
[GPT-2 on a slow link](?panel=workers&compute_ms=98&added_ms=101&loader_ms=0&overlap_percent=0),
[the same with NVLink](?panel=workers&compute_ms=98&added_ms=19&loader_ms=0&overlap_percent=0) and
[a slow loader](?panel=workers&compute_ms=98&added_ms=2&loader_ms=60&overlap_percent=0).
""",
        controls=(
            Slider("compute_ms", "computation of the whole batch", "ms", 98, 10, 1000, 1),
            Slider("loader_ms", "loader, not shared", "ms", 0, 0, 200, 1),
            Slider("added_ms", "communication that each added worker brings", "ms", 101, 0, 200, 1),
            Slider("overlap_percent", "communication hidden behind computation", "%", 0, 0, 100, 5),
        ),
        question=Question(
            "One GPU takes 98 ms for 8 samples. On a slow link each further GPU adds 101 ms of communication to a step. "
            "How long is a step of the same 8 samples on 4 GPUs?",
            unit="ms",
            answer=lambda truth: truth["step"][3],
            at={},
            quantity="step on 4 GPUs",
        ),
        truth="step_time",
        draw=draw_workers,
        yours=your_workers,
        yours_is="the step if you take as many of the workers as your `best_workers` says",
    )
    page = Page(__file__, [workers])
    question, controls, saved = page.question(), page.controls(), page.saved()
    page.head()
    return controls, page, question, saved


@app.cell
def _(question):
    question
    return


@app.cell
def _(page, question):
    verdict = page.verdict(question.value)
    verdict
    return (verdict,)


@app.cell
def _(controls, page, verdict):
    page.layout(controls) if verdict else None
    return


@app.cell
def _(controls, page, saved, verdict):
    page.picture(controls.value, saved) if verdict else None
    return


if __name__ == "__main__":
    app.run()

# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 3: nox -s playground -- 3."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: pipeline parallelism")

with app.setup:
    from grader import schedules
    from grader.errors import StudentFailure
    from grader.playground import (
        Axis,
        Bar,
        Block,
        Choice,
        Line,
        Panel,
        Picture,
        Question,
        Slider,
        Table,
        bars,
        chart,
        number,
        ring_of_waits,
        schedule,
    )
    from grader.playground.page import Page

    LOOKS = {"F": "a", "B": "b", "I": "b", "W": "d"}
    TIMES = ("forward_ms", "input_ms", "weight_ms", "latency_ms")


@app.function
def your_schedule(student, settings, truth):
    """Ask for every rank's list, look whether it is one, and play it."""
    p, m = settings["ranks"], settings["micro_batches"]
    rows = [student.call("schedule", rank, p, m).value for rank in range(p)]
    for rank, row in enumerate(rows):
        if not isinstance(row, list):
            raise TypeError("no list")
        if fault := schedules.first_fault(row, rank, m):
            place, why = fault
            raise StudentFailure(f"schedule({rank}, {p}, {m}): place {place}: {why}.", kind="value")
    written = ";".join(" ".join(row) for row in rows)
    return truth("played", {"rows": written, "ranks": p, "micro_batches": m} | {name: settings[name] for name in TIMES})


@app.function
def gantt(title, played, end):
    """Draw who does what when, and what those who stand wait for."""
    blocks = [
        Block(rank, start, stop, str(micro_batch), LOOKS[kind], f"{stage}{kind}{micro_batch}: {start:g} to {stop:g} ms")
        for rank, start, stop, kind, micro_batch, stage in played["blocks"]
    ]
    waits = {rank: (since, f"{at} waits for {need}") for rank, _, at, need, since in played["waits"]}
    ranks = [f"rank {rank}" for rank in range(played["ranks"])]
    return schedule(
        title, ranks, blocks, "ms; blue forward, orange backward, pink its weights' half", end=end, waits=waits
    )


@app.function
def held_over_time(played):
    """Draw how many micro-batches' activations each rank holds."""
    lines = []
    for (rank, steps), look in zip(enumerate(played["held"]), "abcdefab", strict=False):
        xs = [steps[0][0], *(time for time, _ in steps[1:] for _ in (0, 1))]
        ys = [*(count for _, count in steps[:-1] for _ in (0, 1)), steps[-1][1]]
        lines.append(Line(f"rank {rank}", xs, ys, look))
    return chart("Activations in flight", lines, Axis("time, ms"), Axis("micro-batches held"), height=230, margin=130)


@app.function
def draw_pipeline(settings, truth, yours):
    """Draw the schedule, the learner's beside it, and what is held meanwhile."""
    name, p, m = settings["schedule"], settings["ranks"], truth["micro_batches"]
    end = max(truth["length"], yours["length"] if yours else 0.0)
    figures = [(gantt(f"{name} on {p} ranks", truth, end), f"{name}, {m} micro-batches. Dashed cells are waiting.")]
    reading = f"{name} takes {number(truth['length'])} ms. The bubble is {number(100 * truth['bubble_over_ideal'])} % of the work, {number(100 * truth['bubble_over_total'])} % of the whole step. Rank 0 holds up to {number(truth['peaks'][0])} micro-batches."
    if truth["waits"]:
        reading = f"{name} with that warm-up stops after {number(truth['length'])} ms: every rank that is not done waits for another."
        figures.append(
            (
                ring_of_waits(
                    "Who waits for whom", [(rank, other, f"needs {need}") for rank, other, _, need, _ in truth["waits"]]
                ),
                "An arrow goes to the rank that has what is needed.",
            )
        )
    if yours:
        figures.append((gantt("Your schedule", yours, end), "Your schedule, played with the same times."))
        if yours["waits"]:
            reading += " Yours stops: no rank can go on."
            figures.append(
                (
                    ring_of_waits(
                        "Who waits for whom in yours",
                        [(rank, other, f"needs {need}") for rank, other, _, need, _ in yours["waits"]],
                    ),
                    "Your ranks wait for each other in a circle.",
                )
            )
        else:
            reading += f" Yours takes {number(yours['length'])} ms."
    figures.append((held_over_time(truth), f"What {name} holds over time."))
    peaks = [
        Bar(f"rank {rank}", [("", peak, "a")], yours["peaks"][rank] if yours else None)
        for rank, peak in enumerate(truth["peaks"])
    ]
    figures.append(
        (bars("Most micro-batches held", peaks, "most micro-batches held at once", left=74), "Dashed: your schedule.")
    )
    rows = [
        (
            f"rank {rank}",
            truth["peaks"][rank],
            yours["peaks"][rank] if yours else "–",
            truth["length"],
            yours["length"] if yours else "–",
        )
        for rank in range(p)
    ]
    return Picture(
        figures, reading, Table(("rank", f"{name}: most held", "yours: most held", f"{name}: ms", "yours: ms"), rows)
    )


@app.function
def panels():
    """Return the panels of this chapter, in teaching order."""
    pipeline = Panel(
        name="pipeline",
        title="Pipeline schedules",
        exercise="one_forward_one_backward",
        story="""
A row is a rank, a block the work of one micro-batch. Compare
[GPipe](?panel=pipeline&schedule=GPipe&ranks=4&micro_batches=8&chunks=2&forward_ms=1&input_ms=1&weight_ms=1&latency_ms=0&warm_up=0),
[1F1B](?panel=pipeline&schedule=1F1B&ranks=4&micro_batches=8&chunks=2&forward_ms=1&input_ms=1&weight_ms=1&latency_ms=0&warm_up=0)
and [ZB-H1](?panel=pipeline&schedule=ZB-H1&ranks=4&micro_batches=8&chunks=2&forward_ms=1&input_ms=1&weight_ms=1&latency_ms=0&warm_up=0):
what becomes shorter, what flatter? And what happens when 1F1B
[warms up too little](?panel=pipeline&schedule=1F1B&ranks=4&micro_batches=8&chunks=2&forward_ms=1&input_ms=1&weight_ms=1&latency_ms=0&warm_up=-1)?
""",
        controls=(
            Choice("schedule", "schedule", ("GPipe", "1F1B", "interleaved", "ZB-H1"), "1F1B"),
            Slider("ranks", "ranks", "ranks", 4, 1, 8),
            Slider("micro_batches", "micro-batches", "micro-batches", 8, 1, 16),
            Slider("chunks", "chunks of a rank, if interleaved", "chunks", 2, 1, 4),
            Slider("forward_ms", "forward of a micro-batch", "ms", 1, 1, 10),
            Slider("input_ms", "backward, gradient of the input", "ms", 1, 1, 10),
            Slider("weight_ms", "backward, gradient of the weights", "ms", 1, 1, 10),
            Slider("latency_ms", "message to a neighbour", "ms", 0, 0, 5, 0.5),
            Slider("warm_up", "1F1B's forwards before the first backward, more or fewer than right", "forwards", 0, -4, 4),
        ),
        question=Question(
            "Four stages, eight micro-batches, 1 ms forward and 2 ms backward. A step of GPipe, which does all forwards "
            "first, takes 33 ms. How long does a step of 1F1B take, which goes backward as soon as it can?",
            unit="ms", answer=lambda truth: truth["length"], at={}, quantity="step of 1F1B",
        ),
        truth="pipeline", draw=draw_pipeline, yours=your_schedule,
        yours_needs=("ranks", "micro_batches", "forward_ms", "input_ms", "weight_ms", "latency_ms"),
        yours_is="what your `schedule` returns",
    )  # fmt: skip
    return [pipeline]


@app.cell
def _():
    page = Page(__file__, panels())
    question, controls, saved = page.question(), page.controls(), page.saved()
    page.head(question)
    return controls, page, question, saved


@app.cell
def _(page, question):
    verdict = page.verdict(question.value)
    verdict
    return (verdict,)


@app.cell
def _(controls, page, verdict):
    page.layout(controls, verdict)
    return


@app.cell
def _(controls, page, saved, verdict):
    page.picture(controls.value, verdict, saved)
    return

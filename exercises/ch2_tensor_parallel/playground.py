# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 2: nox -s playground -- 2."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: tensor parallelism")

with app.setup:
    import numpy as np

    from grader.judging import Group, tensor
    from grader.playground import Area, Axis, Line, Mark, Panel, Picture, Question, Slider, Table, chart, number
    from grader.playground.page import Page

    ROWS, FEATURES, HIDDEN, OUTPUTS = 8, 48, 160, 40  # of a small layer, which your file computes


@app.function
def your_traffic(student, _settings, _truth):
    """Run the split layer on 1 to 8 simulated ranks and count what a ring would make each of them send."""
    rng = np.random.default_rng(0)
    x, a, b = rng.normal(size=(ROWS, FEATURES)), rng.normal(size=(FEATURES, HIDDEN)), rng.normal(size=(HIDDEN, OUTPUTS))
    arguments = tuple(tensor(each, "float32") for each in (x, a, b))
    sent, outputs = [], []
    for degree in (1, 2, 4, 8):
        results = student.simulated("harness.output", [(*arguments, Group())] * degree)
        sent.append(max(sum(call.ring_bytes for call in result.calls) for result in results) / 1e3)
        outputs.append(results[0].value["output"].array)
    return {"sent_kb": sent, "alike": all(np.allclose(each, outputs[0], rtol=1e-3, atol=1e-3) for each in outputs)}


@app.function
def draw_layer(settings, truth, yours):
    """Draw the time of a layer and its traffic against the degree, and the traffic of the learner's layer."""
    degrees = truth["degrees"]
    compute, total, floor = truth["compute_ms"], truth["total_ms"], [0.0] * len(degrees)
    ticks = Axis("ranks that share a layer, t", log=True, ticks=degrees)
    areas = [Area("computation", degrees, floor, compute, "a"), Area("all-reduces", degrees, compute, total, "b")]
    best = truth["best"]
    time = chart(
        "Time of a layer against the degree", [Line("a layer", degrees, total, "truth", dots=True)], ticks, Axis("ms, forward and backward"),
        areas=areas, marks=[Mark(f"best: t = {best}", best, min(total))], margin=150,
    )  # fmt: skip
    sent = chart(
        "Bytes a rank sends for a layer", [Line("sent", degrees, truth["sent_mb"], "truth", dots=True)], ticks,
        Axis("MB sent by each rank"), height=250, margin=150,
    )  # fmt: skip
    small = truth["small"]
    lines = [Line("one all-reduce", small["degrees"], small["sent_kb"], "truth", dots=True)]
    rows = list(zip(degrees, truth["sent_mb"], compute, truth["communication_ms"], total, strict=True))
    reading = f"On {best} ranks the layer is fastest: {number(min(total))} ms. On 8 each rank sends {number(truth['sent_mb'][3])} MB, on 32 no more than {number(truth['sent_mb'][5])} MB."
    own = ["–"] * len(degrees)
    if yours:
        lines.append(Line("your mlp", small["degrees"], yours["sent_kb"], "yours", dots=True))
        own = [*yours["sent_kb"], "–", "–"]
        alike = "" if yours["alike"] else ", and its output depends on how many share it"
        reading += f" Your mlp sends {number(yours['sent_kb'][3])} kB on 8 ranks where {number(small['sent_kb'][3])} kB suffice{alike}."
    mine = chart(
        "Bytes your layer sends", lines, Axis("ranks that share a layer, t", log=True, ticks=small["degrees"]),
        Axis("kB sent by each rank, forward"), height=250, margin=190,
    )  # fmt: skip
    table = [(*row, ([*small["sent_kb"], "–", "–"])[i], own[i]) for i, row in enumerate(rows)]
    heads = ("t", "sent, MB", "computation, ms", "all-reduces, ms", "layer, ms", "small layer, kB", "your mlp, kB")
    return Picture(
        [
            (time, f"Beyond {settings['node']} ranks, the all-reduces leave the node."),
            (sent, "What each rank sends hardly grows with t, and what it computes shrinks."),
            (
                mine,
                f"Two matrices, {FEATURES} × {HIDDEN} and {HIDDEN} × {OUTPUTS}, {ROWS} tokens, forward only: counted on the simulated network.",
            ),
        ],
        reading,
        Table(heads, table),
    )


@app.function
def panels():
    """Return the panels of this chapter, in teaching order."""
    layer = Panel(
        name="layer",
        title="Tensor parallelism: bytes and time",
        exercise="column_then_row",
        story="""
A layer shared by t ranks costs four all-reduces of an activation, two forward and two backward. When does that pay, and
why does it end at the node? Compare [a large layer](?panel=layer&tokens=2048&hidden=12288&node=8&inside_gb_per_s=300&between_gb_per_s=25&teraflops=140)
and [a small one](?panel=layer&tokens=2048&hidden=1024&node=8&inside_gb_per_s=300&between_gb_per_s=25&teraflops=140).
""",
        controls=(
            Slider("tokens", "tokens of a micro-batch", "tokens", 2048, 128, 16384, 128),
            Slider("hidden", "hidden size", "features", 12288, 512, 20480, 512),
            Slider("node", "GPUs in a node", "GPUs", 8, 1, 32),
            Slider("inside_gb_per_s", "link inside the node", "GB/s", 300, 10, 900, 10),
            Slider("between_gb_per_s", "link between nodes", "GB/s", 25, 1, 100),
            Slider("teraflops", "GPU", "TFLOP/s", 140, 10, 1000, 10),
        ),
        question=Question(
            "An activation has 50 MB. Over eight ranks, a layer all-reduces one of that size four times, by rings. "
            "How many MB does each rank send?",
            unit="MB", answer=lambda truth: 50 * truth["sent_mb"][3] / truth["activation_mb"], at={}, quantity="sent for a layer",
        ),
        truth="layer", draw=draw_layer, yours=your_traffic, yours_needs=(),
        yours_is="what your `shard` and `mlp` send for a small layer",
    )  # fmt: skip
    return [layer]


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

# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 4: nox -s playground -- 4."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: sharded data parallelism")

with app.setup:
    from grader.playground import (
        Axis,
        Bar,
        Choice,
        Line,
        Mark,
        Panel,
        Picture,
        Question,
        Slider,
        Table,
        bars,
        chart,
        number,
    )
    from grader.playground.page import Page


@app.function
def your_memory(student, settings, _truth):
    """Ask for the state at each stage and over the ranks, for the activations, and for a plan."""
    parameters, optimizer = settings["billions"] * 1e9, settings["optimizer"]
    shape = [settings[name] for name in ("layers", "sequence", "batch", "hidden", "heads", "recompute")]
    activations = float(student.call("activation_gb", *shape).value)

    def total(stage, ranks):
        return float(student.call("model_state_gb", parameters, stage, ranks, optimizer).value) + activations

    plan = student.call("smallest_plan", parameters, activations, settings["budget_gb"], 1024, optimizer).value
    return {
        "stages": [total(stage, settings["ranks"]) for stage in range(4)],
        "by_ranks": [total(int(settings["stage"]), 2**i) for i in range(11)],
        "plan": "nothing fits" if plan is None else f"stage {int(plan[0])} on {int(plan[1])} ranks",
    }


@app.function
def draw_memory(settings, truth, yours):
    """Stack what a rank holds at each stage under the limit, and draw it over the number of ranks."""
    kinds, looks = ("weights", "gradients", "optimizer", "activations"), "acbd"
    rows = [
        Bar(
            f"stage {n}",
            [(kind, stage[kind], look) for kind, look in zip(kinds, looks, strict=True)],
            yours["stages"][n] if yours else None,
        )
        for n, stage in enumerate(truth["stages"])
    ]
    limit = (settings["budget_gb"], f"memory of a GPU: {settings['budget_gb']} GB")
    held = bars("What a rank holds at each stage of ZeRO", rows, "GB on each rank", limit=limit, left=74)
    sent = [Bar(f"stage {n}", [("", each, "e")]) for n, each in enumerate(truth["sent"])]
    lines = [
        Line(f"stage {n}", truth["ranks"], totals, look)
        for (n, totals), look in zip(enumerate(truth["by_ranks"]), "aebc", strict=True)
    ]
    if yours:
        lines.append(Line(f"yours, stage {settings['stage']}", truth["ranks"], yours["by_ranks"], "yours"))
    over = chart(
        "What a rank holds against the number of ranks", lines, Axis("ranks", log=True, ticks=[1, 4, 16, 64, 256, 1024]),
        Axis("GB on each rank", log=True), marks=[Mark("now", settings["ranks"], truth["here"])],
    )  # fmt: skip
    fitting = [str(n) for n, fits in enumerate(truth["fits"]) if fits]
    words = f"stage {' or '.join(fitting)} fits" if fitting else "no stage fits"
    reading = f"At stage {settings['stage']} each of {settings['ranks']} ranks holds {number(truth['here'])} GB, {number(truth['activations'])} GB of it activations. Into {settings['budget_gb']} GB, {words}."
    if yours:
        reading += f" Your file says {number(yours['stages'][truth['chosen']])} GB; its smallest plan: {yours['plan']}."
    table = [
        (
            f"stage {n}",
            *(stage[kind] for kind in (*kinds, "total")),
            truth["sent"][n],
            yours["stages"][n] if yours else "–",
        )
        for n, stage in enumerate(truth["stages"])
    ]
    heads = ("", *(f"{kind}, GB" for kind in (*kinds, "total")), "sent in a step, GB", "yours: total, GB")
    return Picture(
        [
            (
                held,
                "Each stage shards one more of optimizer, gradients and weights; nothing shards the activations. Dashed: your file.",
            ),
            (
                bars("What a rank sends in a step", sent, "GB sent by each rank in a step", left=74),
                "The price: only the last stage sends more.",
            ),
            (over, "With more ranks, what is not sharded stays."),
        ],
        reading,
        Table(heads, table),
    )


@app.function
def panels():
    """Return the panels of this chapter, in teaching order."""
    memory = Panel(
        name="memory",
        title="Where the memory goes under ZeRO",
        exercise="sixteen_bytes",
        story="""
[Table 1 of the ZeRO paper](?panel=memory&billions=7.5&ranks=64&stage=2&optimizer=adam&budget_gb=80&layers=1&hidden=512&heads=8&sequence=128&batch=1&recompute=full)
is a model without activations. Give it
[long sequences](?panel=memory&billions=7.5&ranks=64&stage=3&optimizer=adam&budget_gb=80&layers=36&hidden=4096&heads=32&sequence=8192&batch=1&recompute=none)
and no stage of ZeRO helps; then recompute.
""",
        controls=(
            Slider("billions", "parameters", "billions", 7.5, 0.5, 200, 0.5),
            Slider("ranks", "ranks that share", "ranks", 64, 1, 1024),
            Choice("stage", "stage of ZeRO", ("0", "1", "2", "3"), "2"),
            Choice("optimizer", "optimizer", ("adam", "adam8bit", "momentum", "sgd"), "adam"),
            Slider("budget_gb", "memory of a GPU", "GB", 80, 8, 200),
            Slider("layers", "layers", "layers", 36, 1, 128),
            Slider("hidden", "hidden size", "features", 4096, 512, 16384, 512),
            Slider("heads", "attention heads", "heads", 32, 8, 128, 8),
            Slider("sequence", "sequence", "tokens", 2048, 128, 16384, 128),
            Slider("batch", "sequences of a rank", "sequences", 1, 1, 32),
            Choice("recompute", "recompute activations", ("none", "selective", "full"), "selective"),
        ),
        question=Question(
            "A model of 7.5 billion parameters needs 120 GB for weights, gradients and Adam's state on one GPU. "
            "How many GB of these does each of 64 ranks hold under ZeRO stage 2?",
            unit="GB", answer=lambda truth: truth["state"][2], at={}, quantity="state of a rank, stage 2",
        ),
        truth="memory", draw=draw_memory, yours=your_memory,
        yours_is="what `model_state_gb` and `activation_gb` say together",
    )  # fmt: skip
    return [memory]


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

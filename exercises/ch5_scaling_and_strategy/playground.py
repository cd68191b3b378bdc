# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 5: nox -s playground -- 5."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: scaling and strategy")

with app.setup:
    from grader.playground import (
        Axis,
        Bar,
        Cell,
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
        grid,
        number,
        power,
    )
    from grader.playground.page import Page

    HUBER = ("sum of Huber's losses", "mean of Huber's losses")
    LAWS = ("Hoffmann, as printed", "Hoffmann, four digits", "Epoch's replication")


# --- scaling laws -----------------------------------------------------------------------------------------------------


@app.function
def your_plan(student, settings, truth):
    """Ask for the best plan at this budget, and for the tokens per parameter at all of them."""
    shown = truth("scaling", settings)
    law = shown["law"]
    plan = student.call("optimal", law, shown["compute"]).value
    n, d = float(plan["parameters"]), float(plan["tokens"])
    loss = truth("loss", {"law": settings["law"], "parameters": n, "tokens": d})["loss"]
    ratios = [float(student.call("tokens_per_parameter", law, compute).value) for compute in shown["budgets"]]
    return {"parameters": n, "tokens": d, "loss": loss, "ratios": ratios}


@app.function
def draw_scaling(settings, truth, yours):
    """Draw the valley of one budget with its lowest point, and the tokens per parameter of all budgets."""
    marks = [Mark(f"best: {number(truth['best'] / 1e9)} billion", truth["best"] / 1e9, truth["best_loss"])]
    sizes = [size / 1e9 for size in truth["sizes"]]
    if sizes[0] <= truth["size"] / 1e9 <= sizes[-1]:
        marks.append(Mark("my size", truth["size"] / 1e9, truth["size_loss"], "ideal"))
    more = truth["size_loss"] - truth["best_loss"]
    reading = f"{number(truth['compute'])} FLOPs are best spent on {number(truth['best'] / 1e9)} billion parameters and {number(truth['tokens'] / 1e9)} billion tokens, {number(truth['ratio'])} tokens a parameter: loss {truth['best_loss']:.4f}. Your chosen size loses {more:.4f} nats."
    ratios = [
        Line(name, truth["budgets"], ys, look) for (name, ys), look in zip(truth["ratios"].items(), "abc", strict=True)
    ]
    if yours:
        marks.append(Mark("your optimal", yours["parameters"] / 1e9, yours["loss"], "yours"))
        ratios.append(Line("your function", truth["budgets"], yours["ratios"], "yours"))
        reading += f" Your optimal: {number(yours['parameters'] / 1e9)} billion parameters, loss {yours['loss']:.4f}."
    valley = chart(
        "Loss against size at one budget", [Line("loss", sizes, truth["losses"], "truth")], Axis("billions of parameters, tokens = C / 6N", log=True),
        Axis("loss, nats a token", min(truth["losses"]) - 0.02, min(truth["losses"]) + 0.4), marks=marks, margin=110,
    )  # fmt: skip
    all_budgets = chart(
        "Tokens per parameter against the budget", ratios, Axis("C, FLOPs", log=True, format=power),
        Axis("tokens per parameter of the best plan", 1, 1000, log=True), height=300,
    )  # fmt: skip
    fits = truth["fits"]
    exponents = bars(
        "Exponent that a fit finds", [
            Bar("the runs' law", [("", truth["true"]["exponent"], "a")]),
            *(Bar(name, [("", each["exponent"], "c" if name == settings["huber"] else "e")]) for name, each in fits.items()),
        ], "a in best N = const · C^a", left=190,
    )  # fmt: skip
    fitted = chart(
        "Tokens per parameter by the fit", [
            Line("the runs' law", truth["budgets"], truth["true"]["ratios"], "truth"),
            Line(settings["huber"], truth["budgets"], truth["fit"]["ratios"], "b"),
        ], Axis("C, FLOPs", log=True, format=power), Axis("tokens per parameter of the best plan", 1, 1000, log=True),
        height=300,
    )  # fmt: skip
    reading += f" A fit of 240 runs by the {settings['huber']} finds C^{truth['fit']['exponent']:.3f} where C^{truth['true']['exponent']:.3f} is true, and would train on {number(truth['fit_ratio'])} tokens a parameter, not {number(truth['true_ratio'])}."
    columns = (*truth["ratios"].values(), *(each["ratios"] for each in fits.values()))
    rows = list(zip(truth["budgets"], *columns, yours["ratios"] if yours else ["–"] * 21, strict=True))
    return Picture(
        [
            (valley, f"{settings['law']}: all of these cost the same compute."),
            (all_budgets, "The second digit of an exponent decides."),
            (exponents, "The same runs, the same starts, the same optimizer and tolerance. The same minimum, too."),
            (fitted, "What either fit would make of a budget."),
        ],
        reading,
        Table(("C, FLOPs", *truth["ratios"], *fits, "yours"), rows),
    )


# --- strategy map -----------------------------------------------------------------------------------------------------


@app.function
def your_choice(student, settings, truth):
    """Ask `choose` for its plan, and measure that."""
    shown = truth("strategies", settings)
    plan = student.call("choose", shown["job"], shown["cluster"]).value
    names = ("data", "tensor", "pipeline", "zero", "micro_batch", "recompute")
    own = {name: plan[name] if name == "recompute" else int(plan[name]) for name in names}
    if min(own["data"], own["tensor"], own["pipeline"], own["micro_batch"]) < 1:
        raise ValueError("no degrees")
    same = {
        name: settings[name] for name in ("model", "gpus", "node", "inside_gb_per_s", "between_gb_per_s", "teraflops")
    }
    return truth("plan", own | same)


@app.function
def in_words(plan):
    """Return a plan as people write it."""
    zero = f", ZeRO {plan['zero']}" if plan["zero"] else ""
    return f"data {plan['data']}, tensor {plan['tensor']}, pipeline {plan['pipeline']}{zero}, micro-batch {plan['micro_batch']}, recompute {plan['recompute']}"


@app.function
def map_cell(settings, cell, best, own):
    """Return the cell of one pair of degrees."""
    address = {**settings, "panel": "strategy", "tensor": cell["tensor"], "pipeline": cell["pipeline"]}
    link = "?" + "&".join(f"{name}={str(value).replace(' ', '+')}" for name, value in address.items())
    if cell["mfu"] is None:
        first, _, rest = cell["why"].partition(" do")
        return Cell((first, f"do{rest}") if rest else (first,), None, link=link, words=cell["why"])
    ring = "yours" if own else "truth" if best else ""
    words = f"{in_words(cell['plan'])}: {cell['step_s']:.2f} s a step, {cell['memory_gb']:.0f} GB"
    return Cell((f"{100 * cell['mfu']:.0f} %", f"{number(cell['step_s'])} s"), cell["mfu"], ring, link, words)


@app.function
def draw_map(settings, truth, yours):
    """Colour each pair of degrees by utilization, and take the chosen one apart."""
    best, chosen = truth["best"], truth["chosen"]
    own = (yours["plan"]["tensor"], yours["plan"]["pipeline"]) if yours else None
    tensor, pipeline = truth["tensor"], truth["pipeline"]
    cells = {
        (pipeline.index(cell["pipeline"]), tensor.index(cell["tensor"])): map_cell(
            settings, cell, cell is best, (cell["tensor"], cell["pipeline"]) == own
        )
        for cell in truth["cells"]
    }
    drawn = grid(
        "Utilization by tensor and pipeline degree", [f"p = {each}" for each in pipeline], [f"t = {each}" for each in tensor],
        cells, ("stages", "tensor-parallel ranks; share of the GPUs' speed, and seconds a step"),
    )  # fmt: skip
    figures = [
        (
            drawn,
            "Solid frame: the fastest plan. Dashed: your choose. Crossed out: what does not fit, and why. Follow a cell to take it apart.",
        )
    ]
    if best is None:
        reading = "No plan fits: more GPUs, or larger ones."
    else:
        reading = f"The fastest: {in_words(best['plan'])}: {number(best['step_s'])} s a step, {100 * best['mfu']:.0f} % of the GPUs' speed."
    looks = {"computation": "a", "recomputation": "e", "tensor": "b", "pipeline": "d", "bubble": "f", "data": "c"}
    named = [(f"t = {chosen['tensor']}, p = {chosen['pipeline']}", chosen)] + ([("fastest", best)] if best else [])
    named += [("yours", yours)] if yours else []
    rows = [
        Bar(name, [(part, s, looks[part]) for part, s in each["parts"].items()])
        for name, each in named
        if each["parts"]
    ]
    if rows:
        figures.append(
            (
                bars("Where a step goes", rows, "seconds a step", left=110, most=4 * best["step_s"] if best else None),
                "Computation, recomputation, waiting for tensor and pipeline neighbours, bubble, gradients.",
            )
        )
    if yours:
        fits = (
            ""
            if yours["memory_gb"] <= settings["memory_gb"]
            else f" It needs {number(yours['memory_gb'])} GB and does not fit."
        )
        reading += f" Your choose: {in_words(yours['plan'])}: {number(yours['step_s'])} s.{fits}"
    table = [
        (
            cell["tensor"],
            cell["pipeline"],
            cell["step_s"] or "–",
            100 * cell["mfu"] if cell["mfu"] else "–",
            cell["why"] or in_words(cell["plan"]),
        )
        for cell in truth["cells"]
    ]
    return Picture(
        figures, reading, Table(("tensor", "pipeline", "s a step", "% of the speed", "plan, or why not"), table)
    )


@app.function
def panels():
    """Return the panels of this chapter, in teaching order."""
    scaling = Panel(
        name="scaling",
        title="Scaling-law explorer",
        exercise="spend_compute",
        story="""
One budget of compute buys a large model and few tokens, or a small one and many. Where is the valley, and how much does
it matter which digits of the law one has? Try
[Chinchilla's budget](?panel=scaling&law=Hoffmann,+as+printed&budget=23.76&size=10.8) with
[more digits](?panel=scaling&law=Hoffmann,+four+digits&budget=23.76&size=10.8) and with
[the replication](?panel=scaling&law=Epoch%27s+replication&budget=23.76&size=10.8).
Then fit the same runs by [the sum](?panel=scaling&huber=sum+of+Huber%27s+losses) and by
[the mean](?panel=scaling&huber=mean+of+Huber%27s+losses) of the same losses.
""",
        controls=(
            Choice("law", "constants", LAWS, LAWS[0]),
            Slider("budget", "compute, as a power of ten", "log10 FLOPs", 23.76, 17, 27, 0.01),
            Slider("size", "my size, as a power of ten", "log10 parameters", 10.8, 7, 13, 0.05),
            Choice("huber", "a fit minimizes the", HUBER, HUBER[0]),
            Slider("runs", "made-up runs to fit", "set", 1, 1, 3),
        ),
        question=Question(
            "Chinchilla's budget was 10^23.76 FLOPs, 5.76e23. How many tokens a parameter are best, by the law with the constants that "
            "its paper prints?",
            unit="tokens", answer=lambda truth: truth["ratio"], at={}, quantity="tokens per parameter",
        ),
        truth="scaling", draw=draw_scaling, yours=your_plan, yours_needs=("law", "budget"),
        yours_is="what your `optimal` and `tokens_per_parameter` say",
    )  # fmt: skip
    strategy = Panel(
        name="strategy",
        title="Strategy map",
        exercise="choose_strategy",
        story="""
Each cell is the best plan with that many tensor-parallel ranks and pipeline stages, the rest data parallel. Models are the
rows of Megatron-LM's table and Llama 3. What moves the bright spot: memory, nodes or links?
""",
        controls=(
            Choice("model", "model", ("1.7 billion", "7.5 billion", "18.4 billion", "39.1 billion", "145.6 billion", "Llama 3, 405 billion"), "39.1 billion"),
            Choice("gpus", "GPUs", ("8", "32", "64", "128", "256", "512", "1536", "2048", "8192"), "512"),
            Choice("zero", "ZeRO may be used", ("none", "up to stage 1", "up to stage 3"), "none"),
            Choice("tensor", "take apart: tensor degree", ("1", "2", "4", "8", "16", "32"), "4"),
            Choice("pipeline", "take apart: pipeline degree", ("1", "2", "4", "8", "16", "32"), "4"),
            Slider("node", "GPUs in a node", "GPUs", 8, 1, 32),
            Slider("memory_gb", "memory of a GPU", "GB", 80, 16, 200),
            Slider("inside_gb_per_s", "link inside a node", "GB/s", 300, 10, 900, 10),
            Slider("between_gb_per_s", "link between nodes", "GB/s", 25, 1, 400),
            Slider("teraflops", "speed of a GPU, as kernels reach it", "TFLOP/s", 140, 20, 1000, 10),
        ),
        question=Question(
            "39 billion parameters on 512 GPUs of 80 GB, in nodes of 8 with fast links inside. Into how many parts does the "
            "fastest plan without ZeRO split each layer?",
            unit="parts", answer=lambda truth: truth["best"]["tensor"], at={}, quantity="tensor-parallel degree",
        ),
        truth="strategies", draw=draw_map, yours=your_choice,
        yours_needs=("model", "gpus", "zero", "node", "memory_gb", "inside_gb_per_s", "between_gb_per_s", "teraflops"),
        yours_is="what your `choose` picks, measured as the others are",
    )  # fmt: skip
    return [scaling, strategy]


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

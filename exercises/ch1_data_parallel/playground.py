# /// script
# [tool.marimo.display]
# theme = "system"
# ///
"""The pictures of chapter 1: nox -s playground -- 1."""

import marimo

app = marimo.App(width="medium", app_title="Ranklings: data parallelism")

with app.setup:
    from math import isfinite

    import numpy as np

    from grader.judging import Group, tensor
    from grader.playground import Area, Arrow, Axis, Bar, Block, Cell, Choice, Line, Mark, Panel, Picture, Question
    from grader.playground import Slider, Table, arrows, bars, chart, grid, halves, number, schedule
    from grader.playground.page import Page


# --- step time against workers ----------------------------------------------------------------------------------------


@app.function
def your_workers(student, settings, truth):
    """Ask best_workers how many of 1 to 16 workers to use."""
    alone = {"step_s": settings["compute_ms"] / 1e3, "spread_s": 1e-4, "peak_bytes": 6_100_000_000, "stable": True}
    alone["samples_per_s"] = 8 / alone["step_s"]
    added_s = truth("step_time", settings)["second_ms"] / 1e3  # as measured on two
    clusters = [{"workers": k, "added_worker_s": added_s} for k in range(1, 17)]
    chosen = [student.call("best_workers", alone, cluster).value for cluster in clusters]
    if not all(type(each) is int and 1 <= each <= k for k, each in enumerate(chosen, 1)):
        raise ValueError("not a number of workers")
    return chosen


@app.function
def draw_workers(settings, truth, yours):
    """Stack the parts of a step, and draw the speed-up beside the ideal one."""
    workers, step, compute = truth["workers"], truth["step"], truth["compute"]
    with_loader = [a + b for a, b in zip(compute, truth["loader"], strict=True)]
    areas = [
        Area("computation", workers, [0.0] * 16, compute, "a"),
        Area("loader", workers, compute, with_loader, "d"),
        Area("communication that is seen", workers, with_loader, step, "b"),
    ]
    best = truth["best"][-1]
    lines = [Line("best of so many", workers, [step[k - 1] for k in truth["best"]], "truth", dots=True)]
    speeds = [Line("ideal", workers, workers, "ideal"), Line("real", workers, truth["speedup"], "truth", dots=True)]
    times = f"{number(truth['speedup'][best - 1])} times as fast as one"
    gain = times if best > 1 else "every further one makes it longer"
    reading = f"The shortest step takes {number(step[best - 1])} ms, on {best} of 16 workers: {gain}."
    if yours:
        lines.append(Line("as your best_workers", workers, [step[k - 1] for k in yours], "yours", dots=True))
        reading += f" Your best_workers takes {yours[-1]}, with a step of {number(step[yours[-1] - 1])} ms."
    powers = [1, 2, 4, 8, 16]
    time = chart("Step time against workers", lines, Axis("workers", ticks=powers), Axis("a step, ms"), areas=areas)
    speed = chart(
        "Speed-up against workers", speeds, Axis("workers", log=True, ticks=powers),
        Axis("times as fast as one worker", 1 / 16, 16, log=True, format=halves, ticks=[1 / 16, 1 / 4, 1, 4, 16]),
        marks=[Mark(f"best: {best}", best, truth["speedup"][best - 1])],
        below=(1, "slower than one worker alone"), height=280,
    )  # fmt: skip
    reading += f" On {best} each worker sends {number(truth['sent_mb'][best - 1])} MB of gradients in a step."
    columns = [workers, compute, *(truth[name] for name in ("loader", "sent_mb", "hidden", "communication"))]
    columns += [step, truth["speedup"], truth["best"]]
    heads = ("workers", "computation, ms", "loader, ms", "gradients sent by each, MB", "communication hidden, ms")
    heads += ("communication seen, ms", "step, ms", "speed-up", "best of so many")
    return Picture(
        [(time, "What a step is made of, and the step if one uses only as many of the workers as pay."), (speed, "")],
        reading,
        Table((*heads, "your choice"), list(zip(*columns, yours or ["–"] * 16, strict=True))),
    )


# --- ring stepper -----------------------------------------------------------------------------------------------------


@app.function
def your_ring(student, settings, _truth):
    """Run ring_all_reduce on the simulated network and count what it sends over each link."""
    p, n = settings["ranks"], int(settings["vector_kb"] * 250)
    vectors = [np.full(n, rank + 1.0, dtype=np.float32) for rank in range(p)]
    link = {"alpha_s": settings["alpha_us"] * 1e-6, "beta_s_per_byte": 1e-9 / settings["gb_per_s"]}
    results = student.simulated("ring_all_reduce", [(tensor(each), Group()) for each in vectors], **link)
    messages = [
        (result.rank, call.peer, call.payload_bytes / 1e3, call.start_s * 1e6, call.end_s * 1e6)
        for result in results for call in result.calls if call.op in {"send", "isend"}
    ]  # fmt: skip
    right = all(np.array_equal(result.value.array, np.full(n, p * (p + 1) / 2, np.float32)) for result in results)
    return {"messages": messages, "time_us": max(result.clock_s for result in results) * 1e6, "right": right}


@app.function
def draw_ring(settings, truth, yours):
    """Show who holds what after a round, what each link carried, and which size is fastest how."""
    p, rounds = settings["ranks"], truth["rounds"]
    leaving = {(chunk, a): b for a, b, moved in truth["leaving"] for chunk in moved}
    cells = {
        (chunk, rank): Cell((f"{count} of {p}", f"→ rank {leaving[chunk, rank]}" if (chunk, rank) in leaving else ""), count / p)
        for chunk, row in enumerate(truth["held"]) for rank, count in enumerate(row)
    }  # fmt: skip
    ranks, chunks = [f"rank {rank}" for rank in range(p)], [f"chunk {i}" for i in range(truth["chunks"])]
    name, then = settings["algorithm"], "" if truth["round"] == rounds else " Arrows: what leaves next."
    figures = [(
        grid(f"Who holds the sum of how many ranks after round {truth['round']}", chunks, ranks, cells, ("", "")),
        f"{name}, after round {truth['round']} of {rounds}: of how many ranks each place holds the sum.{then}",
    )]  # fmt: skip
    carried = {}
    for a, b, kb, _, _ in yours["messages"] if yours else ():
        carried[a, b] = carried.get((a, b), 0.0) + kb
    expected = {(a, b): kb for a, b, kb in truth["links"]}
    links = sorted({*expected, *carried})
    looks = [
        Bar(f"{a} → {b}", [("", expected.get((a, b), 0.0), "a")], carried.get((a, b), 0.0) if yours else None)
        for a, b in links
    ]
    figures.append(
        (
            bars("Bytes over each link", looks, "sent over a link in all rounds, kB", left=74),
            "Dashed: your ring_all_reduce, counted on the simulated network.",
        )
    )
    if yours and yours["messages"]:
        blocks = [
            Block(a, start, end, f"→{b}", "b", f"{kb:g} kB to rank {b}") for a, b, kb, start, end in yours["messages"]
        ]
        figures.append(
            (
                schedule("What your ranks sent, and when", ranks, blocks, "virtual time, µs"),
                "The messages of your ring_all_reduce, each at its sender.",
            )
        )
    sizes = truth["sizes_kb"]
    lines = [
        Line(each, sizes, ys, look) for (each, ys), look in zip(truth["curves"].items(), "afcbd", strict=True) if p > 1
    ]
    here = [Mark("now", settings["vector_kb"], truth["time_us"])] if p > 1 else []
    if yours and yours["time_us"] > 0:
        here.append(Mark("yours", settings["vector_kb"], yours["time_us"], "yours"))
    if lines:
        figures.append(
            (
                chart(
                    "Time against size",
                    lines,
                    Axis("vector, kB", log=True),
                    Axis("time, µs", log=True),
                    marks=here,
                    margin=240,
                ),
                "Small vectors cost rounds, large ones cost bytes.",
            )
        )
    reading = f"{name}: {rounds} rounds, each rank sends at most {number(truth['sent_kb'])} kB, {number(truth['time_us'])} µs in all."
    if yours:
        most = max([sum(kb for (a, _), kb in carried.items() if a == rank) for rank in range(p)])
        wrong = "" if yours["right"] else ", and its sums are wrong"
        reading += f" Yours: at most {number(most)} kB, {number(yours['time_us'])} µs{wrong}."
    rows = [(f"{a} → {b}", expected.get((a, b), 0.0), carried.get((a, b), 0.0) if yours else "–") for a, b in links]
    return Picture(figures, reading, Table(("link", f"{name}, kB", "yours, kB"), rows))


# --- loss weighting ---------------------------------------------------------------------------------------------------


@app.function
def your_gradient(student, settings, truth):
    """Let `accumulate` train a linear model on tokens whose gradients point where the picture says."""
    weighting = truth("loss_weighting", settings)
    batches = []
    for count, (x, y) in zip(weighting["tokens"], weighting["parts"], strict=True):
        inputs, labels = np.tile([-2.0 * x, -2.0 * y], (count, 1)), np.zeros(count, dtype=np.int64)
        batches.append((tensor(inputs.reshape(count, 2)), tensor(labels)))
    weight = tensor(np.zeros((2, 2)))
    ranks = [([batches[0], batches[1]], weight), ([batches[2], batches[3]], weight)]
    results = student.simulated("harness.accumulated", ranks, common=(Group(),))
    return [float(each) for each in np.mean([result.value["gradient"].array[0] for result in results], axis=0)]


@app.function
def draw_weighting(settings, truth, yours):
    """Draw the two means as vectors, and yours."""
    tokens, (mx, my), (tx, ty) = truth["tokens"], truth["of_means"], truth["by_token"]
    vectors = [
        Arrow(f"micro-batch {i}: {t} tokens", x, y, "ideal")
        for i, (t, (x, y)) in enumerate(zip(tokens, truth["parts"], strict=True))
    ]
    vectors.append(Arrow("mean over all tokens", tx, ty, "truth"))
    reading = f"A token in the shortest micro-batch weighs {number(truth['weight_ratio'])} times as much as one in the longest in a mean of means, which points {number(truth['apart_degrees'])}° away."
    if isfinite(mx):
        vectors.append(Arrow("mean of the four means", mx, my, "b"))
    else:
        reading = "A micro-batch without a token has no mean: the mean of means is not a number."
    yours_finite = yours is not None and all(map(isfinite, yours))
    if yours_finite:
        vectors.append(Arrow("your accumulate", *yours, "yours"))
    elif yours is not None:
        reading += " Your accumulate gives NaN."
    rows = [(f"micro-batch {i}", t, x, y) for i, (t, (x, y)) in enumerate(zip(tokens, truth["parts"], strict=True))]
    rows += [("mean over all tokens", sum(tokens), tx, ty), ("mean of the four means", "–", mx, my)]
    rows += [("your accumulate", "–", *yours)] if yours else []
    figure = arrows("Gradients of the micro-batches and their means", vectors, "")
    return Picture(
        [
            (
                figure,
                "Rank 0 has micro-batches 0 and 1, rank 1 has 2 and 3. All tokens of a micro-batch pull the same way.",
            )
        ],
        reading,
        Table(("gradient", "tokens", "first", "second"), rows),
    )


# --- where the gradient's scale goes ----------------------------------------------------------------------------------


@app.function
def your_scale(student, settings, truth):
    """Measure by what mean_all_reduce multiplies, and train with that."""
    p = settings["ranks"]
    results = student.simulated("harness.gradient_scale", [()] * p, common=(float(p),))
    scale = float(results[0].value)
    alike = {
        "clip_norm": truth("scales", settings)["clip_norm"],
        "optimizer": settings["optimizer"],
        "rate": settings["rate"],
    }
    return scale, truth("descent", {**alike, "scale": scale})["wrong"]


@app.function
def draw_scales(settings, truth, yours):
    """Draw the losses, and the gradients that made them."""
    steps = truth["steps"]
    lines = [Line("the mean", steps, truth["right"], "truth"), Line(settings["mistake"], steps, truth["wrong"], "b")]
    parts = truth["parts"]
    rows = [Bar("the mean", [("", 1.0, "a")])]
    if max(parts) - min(parts) < 1e-9:
        rows.append(Bar(settings["mistake"], [("", truth["scale"], "b")]))
    else:
        rows += [Bar("its weights", [("", parts[0], "b")]), Bar("its bias", [("", parts[-1], "b")])]
    reading = f"The gradient is {number(truth['scale'])} times the right one at first, and after 60 steps of {settings['optimizer']} the loss is {number(truth['end_ratio'])} times the right one's."
    if yours:
        lines.append(Line("your mean_all_reduce", steps, yours[1], "yours"))
        rows.append(Bar("yours", [("", max(0.0, yours[0]), "f")]))
        reading += f" Your mean_all_reduce multiplies by {number(yours[0])} on {settings['ranks']} ranks."
    y = Axis("loss", 1e-4, 10, log=True)
    figures = [
        (
            chart("Loss against steps", lines, Axis("steps"), y, margin=230),
            f"A small quadratic, trained with {settings['optimizer']}.",
        ),
        (
            bars("Size of the gradient", rows, "times the right gradient", left=190),
            "What the optimizer was handed. Look here, not at the loss.",
        ),
    ]
    table = list(zip(steps, truth["right"], truth["wrong"], yours[1] if yours else ["–"] * len(steps), strict=True))
    return Picture(figures, reading, Table(("step", "the mean", settings["mistake"], "yours"), table))


@app.function
def panels():
    """Return the panels of this chapter, in teaching order."""
    workers = Panel(
        name="workers",
        title="Step time against workers",
        exercise="profile_one_worker",
        story="""
Workers share the computation of a batch. Nobody shares the communication, and often nobody shares the loader. Try
[GPT-2 on a slow link](?panel=workers&compute_ms=98&added_ms=101&loader_ms=0&overlap_percent=0),
[the same with NVLink](?panel=workers&compute_ms=98&added_ms=19&loader_ms=0&overlap_percent=0) and
[a slow loader](?panel=workers&compute_ms=98&added_ms=2&loader_ms=60&overlap_percent=0). Or give the bytes and the link:
[498 MB of gradients over 5 GB/s](?panel=workers&compute_ms=98&added_ms=0&gradient_mb=498&gb_per_s=5&overlap_percent=0), and
[half of it hidden](?panel=workers&compute_ms=98&added_ms=0&gradient_mb=498&gb_per_s=5&overlap_percent=50).
""",
        controls=(
            Slider("compute_ms", "computation of the whole batch", "ms", 98, 10, 1000),
            Slider("loader_ms", "loader, not shared", "ms", 0, 0, 200),
            Slider("added_ms", "communication that each added worker brings", "ms", 101, 0, 200),
            Slider("gradient_mb", "gradients that a ring adds up", "MB", 0, 0, 4000),
            Slider("gb_per_s", "bandwidth of a link", "GB/s", 5, 1, 400),
            Slider("overlap_percent", "of communication hidden, as long as computation lasts", "%", 0, 0, 100, 5),
        ),
        question=Question(
            "One GPU takes 98 ms for 8 samples. On a slow link each further GPU adds 101 ms of communication to a step. "
            "How long is a step of the same 8 samples on 4 GPUs?",
            unit="ms", answer=lambda truth: truth["step"][3], at={}, quantity="step on 4 GPUs",
        ),
        truth="step_time", draw=draw_workers, yours=your_workers,
        yours_is="the step if you use as many of the workers as your `best_workers` says",
    )  # fmt: skip
    ring = Panel(
        name="ring",
        title="All-reduce, round by round",
        exercise="ring_all_reduce",
        story="""
Step through the rounds of five ways to add up a vector on all ranks. Who holds what, what does each link carry, and
which way is fastest for [a loss of 1 kB](?panel=ring&ranks=8&vector_kb=1&algorithm=ring&gb_per_s=10&alpha_us=10&done=3)
or for [a megabyte](?panel=ring&ranks=8&vector_kb=1000&algorithm=ring&gb_per_s=10&alpha_us=10&done=3)?
""",
        controls=(
            Choice("algorithm", "algorithm", ("ring", "whole vectors round the ring", "recursive doubling", "halving and doubling", "tree"), "ring"),
            Slider("done", "rounds done", "rounds", 2, 0, 16),
            Slider("ranks", "ranks", "ranks", 4, 1, 8),
            Slider("vector_kb", "vector of each rank", "kB", 1000, 1, 2000),
            Slider("alpha_us", "latency α of a message", "µs", 10, 0, 100),
            Slider("gb_per_s", "bandwidth 1/β of a link", "GB/s", 10, 1, 100),
        ),
        question=Question(
            "Four ranks add up their vectors of 1000 kB by a ring that sends as little as possible. "
            "How many kB does each rank send, all rounds together?",
            unit="kB", answer=lambda truth: truth["sent_kb"], at={}, quantity="sent by a rank of 4",
        ),
        truth="all_reduce", draw=draw_ring, yours=your_ring,
        yours_needs=("ranks", "vector_kb", "alpha_us", "gb_per_s"),
        yours_is="what your `ring_all_reduce` sends on the simulated network",
    )  # fmt: skip
    weighting = Panel(
        name="weighting",
        title="Loss weighting",
        exercise="token_weighted_loss",
        story="""
Two ranks with two micro-batches each. A mean of means gives every micro-batch one vote, however few tokens it has. Try
[equal](?panel=weighting&tokens_a=8&tokens_b=8&tokens_c=8&tokens_d=8),
[one long](?panel=weighting&tokens_a=2&tokens_b=2&tokens_c=2&tokens_d=26) and
[one empty](?panel=weighting&tokens_a=0&tokens_b=4&tokens_c=8&tokens_d=8).
""",
        controls=tuple(
            Slider(f"tokens_{letter}", f"rank {rank}, micro-batch {i}", "tokens", first, 0, 40)
            for letter, rank, i, first in (("a", 0, 0, 2), ("b", 0, 1, 2), ("c", 1, 2, 2), ("d", 1, 3, 26))
        ),
        question=Question(
            "Micro-batches have 2, 2, 2 and 26 tokens, and the mean of their four mean losses is trained on. How many times "
            "as much does a token in a short micro-batch weigh as one in the long one?",
            unit="times", answer=lambda truth: truth["weight_ratio"], at={}, quantity="weight of a token",
        ),
        truth="loss_weighting", draw=draw_weighting, yours=your_gradient,
        yours_is="the gradient that your `accumulate` leaves, averaged over the ranks",
    )  # fmt: skip
    scale = Panel(
        name="scale",
        title="Where does the gradient's scale go?",
        exercise="mean_gradients",
        story="""
A gradient that is eight times too large is a learning rate that nobody set. With SGD one sees it, if one looks:
[SGD](?panel=scale&mistake=summed+over+the+ranks&optimizer=SGD&ranks=8&micro_batches=4&rate=0.3). With Adam one does not:
[Adam](?panel=scale&mistake=summed+over+the+ranks&optimizer=Adam&ranks=8&micro_batches=4&rate=0.3). Not every mistake is a
factor: [a bias on every rank](?panel=scale&mistake=bias+added+on+every+rank&optimizer=Adam&ranks=4&rate=0.3), and
[a rank with odd data, clipped alone](?panel=scale&mistake=clipped+on+each+rank&optimizer=Adam&ranks=8&clip_norm=1&rate=0.3).
""",
        controls=(
            Choice("mistake", "mistake", ("none", "summed over the ranks", "divided by the ranks twice", "micro-batches not divided", "both summed", "bias added on every rank", "clipped on each rank"), "summed over the ranks"),
            Choice("optimizer", "optimizer", ("SGD", "Adam"), "Adam"),
            Slider("ranks", "ranks", "ranks", 8, 1, 8),
            Slider("micro_batches", "micro-batches in a step", "micro-batches", 4, 1, 16),
            Slider("clip_norm", "largest norm, where a mistake clips", "norm", 1.0, 0.1, 3.0, 0.1),
            Slider("rate", "learning rate", "per step", 0.3, 0.01, 1.0, 0.01),
        ),
        question=Question(
            "Eight ranks sum their gradients where the mean was meant, and train with Adam. "
            "After 60 steps, the loss is how many times that of the right run?",
            unit="times", answer=lambda truth: truth["end_ratio"], at={}, quantity="final loss with Adam",
        ),
        truth="scales", draw=draw_scales, yours=your_scale, yours_needs=("mistake", "ranks", "clip_norm", "optimizer", "rate"),
        yours_is="training with what your `mean_all_reduce` makes of the gradient",
    )  # fmt: skip
    return [workers, ring, weighting, scale]


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

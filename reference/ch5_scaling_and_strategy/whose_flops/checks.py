"""Hidden checks of whose_flops, in teaching order: FLOPs of model and hardware, published tables, tokens, peak."""

from __future__ import annotations

from grader.judging import Student, assert_close, assert_equal, check

A100 = {"printed_flops_per_s": 312e12, "with_sparsity": False}
H100 = {"printed_flops_per_s": 1979e12, "with_sparsity": True}
# Narayanan et al. 2021, table 1: billions of parameters, h, l, GPUs, batch, TFLOP/s per GPU, % of peak, PFLOP/s in all.
SC21 = (
    (1.7, 2304, 24, 32, 512, 137, 44, 4.4), (3.6, 3072, 30, 64, 512, 138, 44, 8.8),
    (7.5, 4096, 36, 128, 512, 142, 46, 18.2), (18.4, 6144, 40, 256, 1024, 135, 43, 34.6),
    (39.1, 8192, 48, 512, 1536, 138, 44, 70.8), (76.1, 10240, 60, 1024, 1792, 140, 45, 143.8),
    (145.6, 12288, 80, 1536, 2304, 148, 47, 227.1), (310.1, 16384, 96, 1920, 2160, 155, 50, 297.4),
    (529.6, 20480, 105, 2520, 2520, 163, 52, 410.2), (1008.0, 25600, 128, 3072, 3072, 163, 52, 502.0),
)  # fmt: skip
# Table 2: GPUs, TFLOP/s per GPU and days for 300 billion tokens, first ZeRO-3, then Megatron's own.
DAYS_175B = ((384, 144, 90), (768, 88, 74), (1536, 44, 74), (384, 153, 84), (768, 149, 43), (1536, 141, 23))
DAYS_530B = ((640, 138, 169), (1120, 98, 137), (2240, 48, 140), (560, 171, 156), (1120, 167, 80), (2240, 159, 42))
# Korthikanti et al. 2022, table 5: l, h, batch, GPUs, seconds a step, % MFU, % HFU with selective recomputation.
SELECTIVE = (
    (48, 6144, 4, 8, 1.10, 41.5, 43.7), (96, 12288, 64, 64, 13.75, 51.4, 52.8),
    (105, 20480, 280, 280, 37.83, 56.0, 57.0), (128, 25600, 512, 512, 71.49, 56.3, 57.0),
)  # fmt: skip


def gpt(layers: int, hidden: int, sequence: int = 2048, vocabulary: int = 51200) -> dict[str, int]:
    """Return the sizes of a model."""
    return {"layers": layers, "hidden": hidden, "vocabulary": vocabulary, "sequence": sequence}


def products(model: dict[str, int], n: int) -> tuple[int, int, int]:
    """Return the FLOPs of a forward, product by product: with the layers' weights, attention, logits."""
    layers, h, v, s = model["layers"], model["hidden"], model["vocabulary"], model["sequence"]
    weights = [2 * s * h * columns for columns in (3 * h, h, 4 * h)] + [2 * s * 4 * h * h]
    return n * layers * sum(weights), n * layers * 2 * (2 * s * s * h), n * 2 * s * h * v


MODELS = (gpt(2, 64, 128, 1000), gpt(24, 2304), gpt(36, 4096, 131072), gpt(3, 64, 16, 50000), gpt(128, 25600))


@check(
    hints=(
        "Which products of the README have no weights? Which parameters of the model are multiplied with nothing?",
        "m x k times k x n costs 2mkn. Add up a forward; layers come l times, logits once, and all of it thrice.",
    )
)
def check_every_matrix_product_counts(student: Student) -> None:
    """A model's FLOPs are those of its matrix products, attention and logits included, forward and backward."""
    for model in MODELS:
        weights, attention, logits = products(model, 5)
        h, both = model["hidden"], model["vocabulary"] + model["sequence"]
        size = float(model["layers"] * (12 * h * h + 13 * h) + both * h)
        assert_close(student.call("parameters", model).value, size, f"parameters of {model}")
        mistakes = {
            "six for each parameter and token": 30 * size * model["sequence"],
            "the products without attention's two": 3 * (weights + logits),
            "the products with the embedding, a look-up, as one more": 3 * (weights + attention + 2 * logits),
        }
        counted = student.call("model_flops", model, 5).value
        assert_close(counted, float(3 * (weights + attention + logits)), f"model_flops of {model}", mistakes=mistakes)


@check(
    hints=(
        "Full recomputation runs the layers' forward again, not the logits'. Which two products does selective name?",
        "Selective, by the published equation, counts attention's forward and backward again: three forwards more.",
    )
)
def check_recomputation_is_work_of_the_hardware(student: Student) -> None:
    """The hardware carries out what is recomputed besides: layers in full, or attention as equation 8 counts it."""
    for model in MODELS:
        weights, attention, logits = products(model, 3)
        needed = 3 * (weights + attention + logits)
        mistakes = {"what the model needs": needed, "the logits recomputed as well": needed + needed / 3}
        mistakes["one forward of attention more, which equation 8 does not say"] = needed + attention
        for recompute, more in (("none", 0), ("full", weights + attention), ("selective", 3 * attention)):
            what, known = f"hardware_flops, recompute {recompute}, of {model}", mistakes if more else {}
            counted = student.call("hardware_flops", model, 3, recompute).value
            assert_close(counted, float(needed + more), what, mistakes=known)


def shares(student: Student, row: tuple[int, int, int, int, float], recompute: str) -> tuple[float, float]:
    """Return MFU and HFU, in percent, of a row's l, h, batch, GPUs and seconds a step."""
    sizes = dict(zip(("n_sequences", "gpus", "step_s"), row[2:], strict=True))
    found = student.call("utilization", sizes | {"model": gpt(*row[:2]), "recompute": recompute, "gpu": A100}).value
    return found["mfu"] * 100, found["hfu"] * 100


@check(
    hints=(
        "MFU asks what the model got out of the hardware, HFU what the hardware did. Which FLOPs belong to which?",
        "A run that recomputes more is busier and trains no faster: mfu must not know about `recompute`.",
    )
)
def check_the_tables_of_two_papers(student: Student) -> None:
    """Ten rows of Megatron-LM and its days come out, and four rows with selective recomputation, as MFU and HFU."""
    for *row, mfu, hfu in SELECTIVE:
        what, mistakes = f"(mfu, hfu) of l = {row[0]}, h = {row[1]}, in %", {"the other share": (hfu, mfu)}
        assert_close(shares(student, row, "selective"), (mfu, hfu), what, atol=0.25, mistakes=mistakes)
    for billions, h, layers, gpus, n, teraflops, percent, petaflops in SC21:
        weights, attention, logits = products(gpt(layers, h), n)
        step_s = (4 * (weights + attention) + 3 * logits) / (gpus * teraflops * 1e12)  # equation 3
        mfu, hfu = shares(student, (layers, h, n, gpus, step_s), "full")
        expected = 3 * (weights + attention + logits) / (step_s * gpus * 3.12e12)
        assert_close(student.call("parameters", gpt(layers, h)).value / 1e9, billions, "10^9 parameters", atol=0.06)
        assert_close(hfu, float(percent), f"hfu of the {billions} B model, in %", atol=0.6)
        assert_close(hfu * 3.12e-3 * gpus, petaflops, f"PFLOP/s in all, by hfu of the {billions} B model", rtol=5e-3)
        assert_close(mfu, expected, f"mfu of the {billions} B model, in %", mistakes={"its HFU": hfu})
    days = [(gpt(96, 12288), *row) for row in DAYS_175B] + [(gpt(105, 20480), *row) for row in DAYS_530B]
    for model, gpus, teraflops, printed in days:
        found = student.call("training_days", model, 300e9, gpus, teraflops * 1e12, "full").value
        assert_close(found, float(printed), f"training_days of {model} on {gpus} GPUs", rtol=0.012, unit="days")


@check(
    hints=(
        "Llama 3 trained on 16 million tokens a step, in sequences of 8192. How many of 8192 GPUs saw the same ones?",
        "How many replicas do the GPUs hold? Count each one's sequences at their own lengths, without padding.",
    )
)
def check_a_token_counts_once(student: Student) -> None:
    """Tokens are counted once, whatever shares out a replica, and padding not at all."""
    rows = [([8192] * 32, 8192, 8, 16, 1), ([8192] * 16, 16384, 8, 16, 1), ([131072] * 16, 16384, 8, 16, 16)]  # Llama 3
    for lengths, gpus, t, p, c in [*rows, ([5, 3, 8, 1], 12, 2, 3, 1), ([7], 1, 1, 1, 1), ([6, 2], 60, 1, 4, 5)]:
        layout, replicas = {"gpus": gpus, "tensor": t, "pipeline": p, "context": c}, gpus // (t * p * c)
        mistakes = {
            "one replica's tokens for every GPU": sum(lengths) * gpus,
            "the tokens with context parallelism counted as data parallelism": sum(lengths) * replicas * c,
            "the tokens with padding": max(lengths) * len(lengths) * replicas,
        }
        found, what = student.call("tokens_per_step", lengths, layout).value, f"tokens_per_step of {layout}"
        assert_equal(found, sum(lengths) * replicas, f"{what}, {len(lengths)} sequences a replica,", mistakes=mistakes)


@check(
    hints=(
        "Half of the matrix is zero in the data sheet's larger number. Is half of yours?",
        "Raise the ValueError where the share is computed, so that both, mfu and hfu, are looked at.",
    )
)
def check_the_dense_peak_is_the_limit(student: Student) -> None:
    """Shares are of the dense peak, so Llama 3's rows come out, and a share above 1 is a ValueError."""
    for gpu, teraflops, percent in ((H100, 430, 43), (H100, 400, 41), (H100, 380, 38), (A100, 312, 100)):
        found, what = student.call("share_of_peak", teraflops * 1e12, gpu).value, f"{teraflops} TFLOP/s of {gpu}"
        assert_close(found * 100, float(percent), f"share_of_peak of {what}, in %", atol=1.0)
    run = {"model": gpt(24, 2304), "n_sequences": 512, "recompute": "full", "step_s": 1.2, "gpus": 32, "gpu": A100}
    for name, *arguments in (("share_of_peak", 1545e12, H100), ("share_of_peak", 313e12, A100), ("utilization", run)):
        ended = student.call("harness.refusal", name, *arguments).value  # the run's mfu is 98 %, its hfu 129 %
        assert ended == "refused", f"{name} of a GPU above its peak {ended}, expected a ValueError."

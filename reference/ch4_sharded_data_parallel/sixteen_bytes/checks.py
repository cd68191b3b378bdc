"""Hidden checks of sixteen_bytes, in teaching order: one parameter, the published table, activations, then plans."""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from grader.judging import Student, assert_close, assert_equal, check

# ZeRO, Table 1: GB a device for stages 1, 2, 3. The paper rounds the first model and cuts the digits of the others.
RANKS = (1, 4, 16, 64, 256, 1024)
TABLE = {
    7.5e9: "120 120 120  52.5 41.3 30  35.6 21.6 7.5  31.4 16.6 1.88  30.4 15.4 0.47  30.1 15.1 0.12",
    128e9: "2048 2048 2048  896 704 512  608 368 128  536 284 32  518 263 8  513 257 2",
    1e12: "16000 16000 16000  7000 5500 4000  4750 2875 1000  4187 2218 250  4046 2054 62.5  4011 2013 15.6",
}


@check(
    hints=(
        "Half precision has 11 bits. What is left of a weight of 1 after an update of 1e-4 is added to it?",
        "What the optimizer adds up over thousands of steps it keeps in 4 bytes: each moment, and what else?",
        "Every optimizer here holds a master copy of the weight, plain SGD too; only the moments differ.",
    )
)
def check_the_optimizer_keeps_a_master_copy(student: Student) -> None:
    """An optimizer holds a 4-byte master copy of each weight and its states: 4, 8, 12 and 6 bytes."""
    for name, expected in {"adam": 12, "momentum": 8, "sgd": 4, "adam8bit": 6}.items():
        mistakes = {"its states alone, without a master copy": expected - 4}
        actual = student.call("optimizer_bytes", name).value
        assert_equal(actual, expected, f"optimizer_bytes({name!r})", mistakes=mistakes)


@check(
    hints=(
        "With one rank no stage changes anything. What do 2 + 2 + optimizer_bytes bytes a parameter add up to?",
        "A GB is 10**9 bytes here and in the paper; 2**30 bytes are a GiB.",
    )
)
def check_one_rank_holds_everything(student: Student) -> None:
    """One rank holds the whole state at every stage: 16 bytes a parameter with Adam, by 10**9 bytes a GB."""
    for optimizer, each in {"adam": 16, "momentum": 12, "sgd": 8, "adam8bit": 10}.items():
        for stage in range(4):
            actual = student.call("model_state_gb", 7.5e9, stage, 1, optimizer).value
            mistakes = {"that in GiB of 2**30 bytes": each * 7.5e9 / 2**30, "Adam's, whatever the optimizer": 120.0}
            if each == 16:
                mistakes.popitem()
            what = f"model_state_gb of 7.5e9 parameters at stage {stage} on one rank, {optimizer},"
            assert_close(actual, each * 7.5, what, mistakes=mistakes, unit="GB")


@check(
    hints=(
        "Stage 1 shards the optimizer, stage 2 gradients too, stage 3 weights too: which terms are divided?",
        "The master copy belongs to the optimizer: at stage 1 a rank keeps it only for its own shard.",
    )
)
def check_the_published_table(student: Student) -> None:
    """All 54 cells of the ZeRO paper's Table 1 come out as printed."""
    for parameters, cells in TABLE.items():
        rounding = ROUND_HALF_UP if parameters == 7.5e9 else ROUND_DOWN
        places = [(ranks, stage) for ranks in RANKS for stage in (1, 2, 3)]
        for (ranks, stage), printed in zip(places, cells.split(), strict=True):
            actual = student.call("model_state_gb", parameters, stage, ranks, "adam").value
            what = f"model_state_gb of {parameters:.3g} parameters at stage {stage} on {ranks} ranks"
            assert isinstance(actual, float), f"{what} is of type {type(actual).__name__}, expected a float."
            # Six places are kept first: 41.25 may arrive as 41.2499999999.
            digits = Decimal(f"{actual:.6f}").quantize(Decimal(printed), rounding)
            assert_equal(str(digits), printed, f"{what}, in the table's digits,")


@check(
    hints=("Which ranks share which bytes is the same for every optimizer; only optimizer_bytes(optimizer) changes.",),
    guards="stage 0, other optimizers and numbers of ranks that the table does not have",
)
def check_other_optimizers_shard_alike(student: Student) -> None:
    """Every optimizer is sharded by the same rule, stage 0 not at all, on any number of ranks."""
    for optimizer, states in {"adam": 12, "momentum": 8, "sgd": 4, "adam8bit": 6}.items():
        for ranks in (2, 3, 7):
            for stage, each in enumerate(
                (4 + states, 4 + states / ranks, 2 + (2 + states) / ranks, (4 + states) / ranks)
            ):
                actual = student.call("model_state_gb", 3e9, stage, ranks, optimizer).value
                assert_close(actual, 3 * each, f"stage {stage}, {ranks} ranks, {optimizer}: model state", unit="GB")


@check(
    hints=(
        "A layer keeps more than its output: whatever its backward pass multiplies with. Add up the README's table.",
        "The softmax of each head is s by s: a s² b numbers. Twice 2 bytes and a mask of 1 byte make 5 a s² b.",
        "Attention is 11 sbh + 5 a s² b, the MLP 19 sbh, two LayerNorms 4 sbh; which of them does each recompute keep?",
    )
)
def check_a_layer_keeps_what_its_backward_needs(student: Student) -> None:
    """Activations are 34 sbh + 5 as²b bytes a layer, 34 sbh with selective and 2 sbh with full recomputation."""
    for layers, s, b, h, a in [(96, 2048, 1, 12288, 96), (3, 5, 7, 24, 2), (105, 2048, 1, 20480, 128)]:
        sbh, scores = s * b * h, a * s * s * b
        keeps = {"none": 34 * sbh + 5 * scores, "selective": 34 * sbh, "full": 2 * sbh}
        mistakes = {"that of the layers' inputs alone": 2 * sbh, "that without masks": 32 * sbh + 4 * scores}
        for recompute, expected in keeps.items():
            actual = student.call("activation_gb", layers, s, b, h, a, recompute).value
            known = {name: layers * n / 1e9 for name, n in mistakes.items() if n != expected}
            what = f"activations of {layers} layers, s={s} b={b} h={h} a={a}, recompute={recompute!r},"
            assert_close(actual, layers * expected / 1e9, what, mistakes=known, unit="GB")


@check(
    hints=(
        "A rank that is full of model state has no room to run. What else is in memory at the end of the forward pass?",
        "ZeRO divides weights, gradients and optimizer. Whose batch are the activations of, and who else needs them?",
        "Exactly the budget still fits. Try all numbers of ranks at a stage before the next stage; at the end, None.",
    )
)
def check_the_plan_counts_activations(student: Student) -> None:
    """The plan is the smallest stage, then the fewest ranks, at which state and activations fit; None if none do."""
    cases = [
        (7.5e9, 0.0, 120.0, 64, "adam", (0, 1)),  # exactly full
        (7.5e9, 0.5, 120.0, 64, "adam", (1, 2)),
        (7.5e9, 10.0, 42.0, 64, "adam", (1, 45)),  # 30 + 90 / 45 + 10
        (7.5e9, 10.0, 42.0, 44, "adam", (2, 7)),  # 15 + 105 / 7 + 10 = 40; six ranks need 42.5
        (7.5e9, 10.0, 32.0, 64, "adam", (2, 15)),  # exactly full: 15 + 105 / 15 + 10
        (7.5e9, 10.0, 25.0, 8, "adam", (3, 8)),  # exactly full: 120 / 8 + 10
        (7.5e9, 10.0, 25.0, 7, "adam", None),
        (7.5e9, 10.0, 32.0, 64, "sgd", (2, 7)),  # 15 + 45 / 7 + 10 = 31.4; six ranks need 32.5
    ]
    for parameters, activations_gb, budget_gb, most_ranks, optimizer, expected in cases:
        actual = student.call("smallest_plan", parameters, activations_gb, budget_gb, most_ranks, optimizer).value
        what = (
            f"{budget_gb} GB a rank, {activations_gb} GB of it activations, up to {most_ranks} ranks, {optimizer}: plan"
        )
        assert_equal(tuple(actual) if isinstance(actual, list) else actual, expected, what)

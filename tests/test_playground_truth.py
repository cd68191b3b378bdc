"""What panels show equals the references, or torch itself, at 200 random settings each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from chapters import APPS, ROOT, load, many, panels, reference, truth_of
from grader.playground.panels import Panel, Settings, Truth

PANELS: dict[str, tuple[Panel, Truth]] = {panel.name: (panel, truth_of(app)) for app in APPS for panel in panels(app)}
close = pytest.approx


def test_step_time_is_that_of_the_cost_model() -> None:
    panel, truth = PANELS["workers"]
    theirs = reference("profile_one_worker")
    for drawn in many(panel):
        settings = {**drawn, "gradient_mb": 0, "overlap_percent": 0}  # the cost model knows a constant for each worker
        shown, seen_s = truth(panel.truth, settings), settings["added_ms"] / 1e3
        alone = {"step_s": settings["compute_ms"] / 1e3, "stable": True}
        for k, step, best in zip(shown["workers"], shown["step"], shown["best"], strict=True):
            cluster = {"workers": k, "added_worker_s": seen_s}
            alike = theirs.predicted_step_s(alone, cluster, k) * 1e3 + settings["loader_ms"]
            assert step == close(alike), settings
            chosen = theirs.best_workers(alone, cluster)
            assert shown["step"][best - 1] == close(shown["step"][chosen - 1]), settings


def test_a_step_is_computation_and_the_communication_that_is_seen() -> None:
    panel, truth = PANELS["workers"]
    theirs = reference("communication_budget")
    for settings in many(panel):
        shown = truth(panel.truth, settings)
        cluster = {"gpus_per_node": 99, "inside_bytes_per_s": settings["gb_per_s"] * 1e9}
        for k, sent_mb, step in zip(shown["workers"], shown["sent_mb"], shown["step"], strict=True):
            sent = theirs.all_reduce_bytes(settings["gradient_mb"] * 1e6, k)
            data_s = theirs.transfer_s(sent, range(k), cluster) + settings["added_ms"] * (k - 1) / 1e3
            compute_s = settings["compute_ms"] / k / 1e3
            hidden_s = min(data_s * settings["overlap_percent"] / 100, compute_s)
            step_s = theirs.step_s(compute_s, data_s, 0.0, 0.0, hidden_s) + settings["loader_ms"] / 1e3
            assert (sent_mb, step) == close((sent / 1e6, step_s * 1e3)), settings


def test_all_reduce_takes_what_its_formula_says_and_ends_with_everything() -> None:
    panel, truth = PANELS["ring"]
    theirs = reference("latency_or_bandwidth")
    for settings in many(panel):
        shown = truth(panel.truth, {**settings, "done": 99})
        assert {count for row in shown["held"] for count in row} == {settings["ranks"]}
        link = {"alpha_s": settings["alpha_us"] * 1e-6, "beta_s_per_byte": 1e-9 / settings["gb_per_s"]}
        n, p = settings["vector_kb"] * 1000, settings["ranks"]
        if settings["algorithm"] in theirs.ALGORITHMS:
            assert shown["time_us"] == close(theirs.all_reduce_s(settings["algorithm"], n, p, link) * 1e6), settings
        if settings["algorithm"] == "ring":
            assert shown["sent_kb"] == close(theirs.bus_bandwidth("all_reduce", n, 1.0, p) / 1e3), settings


def test_loss_weighting_is_what_autograd_says() -> None:
    panel, truth = PANELS["weighting"]
    for settings in many(panel):
        shown = truth(panel.truth, settings)
        parts = torch.tensor(shown["parts"], dtype=torch.float64)
        weight = torch.zeros(2, dtype=torch.float64, requires_grad=True)
        losses = [(part @ weight).expand(count) for part, count in zip(parts, shown["tokens"], strict=True)]
        (by_token,) = torch.autograd.grad(
            torch.cat(losses).sum() / max(1, sum(shown["tokens"])), weight, retain_graph=True
        )
        assert shown["by_token"] == close(by_token.tolist()), settings
        if all(shown["tokens"]):
            (of_means,) = torch.autograd.grad(sum(each.mean() for each in losses) / 4, weight)
            assert shown["of_means"] == close(of_means.tolist()), settings
        else:
            assert all(map(math.isnan, shown["of_means"]))


def test_losses_are_those_of_torch_optimizers() -> None:
    panel, truth = PANELS["scale"]
    curvature = torch.tensor([1.0, 0.4, 0.1], dtype=torch.float64)
    for settings in many(panel):
        if settings["mistake"] in {"bias added on every rank", "clipped on each rank"}:
            continue  # no factor: below
        shown = truth(panel.truth, settings)
        x = nn.Parameter(torch.ones(3, dtype=torch.float64))
        rate = settings["rate"]
        optimizer = (
            torch.optim.SGD([x], lr=rate) if settings["optimizer"] == "SGD" else torch.optim.Adam([x], lr=rate / 10)
        )
        for step in range(11):
            loss = float((0.5 * curvature * x.detach() ** 2).sum())
            assert loss > 1e9 or shown["wrong"][step] == close(loss, rel=1e-6), settings
            x.grad = shown["scale"] * curvature * x.detach()
            optimizer.step()


def optimizer_of(settings: Settings, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Return torch's optimizer at a panel's learning rate."""
    rate = float(settings["rate"])
    return (
        torch.optim.SGD(parameters, lr=rate)
        if settings["optimizer"] == "SGD"
        else torch.optim.Adam(parameters, lr=rate / 10)
    )


def test_a_bias_on_every_rank_is_what_autograd_makes_of_it() -> None:
    panel, truth = PANELS["scale"]
    curvature = torch.tensor([1.0, 0.4, 0.1], dtype=torch.float64)
    for drawn in many(panel):
        settings = {**drawn, "mistake": "bias added on every rank"}
        shown, ranks = truth(panel.truth, settings), int(settings["ranks"])
        weights = nn.Parameter(torch.ones(2, dtype=torch.float64))
        copies = [nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(ranks)]
        optimizer = optimizer_of(settings, [weights, *copies])
        for step in range(11):
            loss = (0.5 * curvature * torch.cat([weights, torch.stack(copies).sum(0)]) ** 2).sum()
            assert shown["wrong"][step] == close(loss.item(), rel=1e-6), settings
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                assert copies[0].grad is not None
                assert shown["parts"] == close([1.0, 1.0, copies[0].grad.item() / 0.1]), settings
            optimizer.step()


def test_clipping_on_each_rank_is_that_of_torch() -> None:
    panel, truth = PANELS["scale"]
    curvature = torch.tensor([1.0, 0.4, 0.1], dtype=torch.float64)

    def gradient(x: nn.Parameter, offsets: list[float], most: float) -> torch.Tensor:
        x.grad = torch.autograd.grad(
            sum((0.5 * curvature * (x - each) ** 2).sum() for each in offsets) / len(offsets), x
        )[0]
        nn.utils.clip_grad_norm_([x], most)
        return x.grad

    for drawn in many(panel):
        settings = {**drawn, "mistake": "clipped on each rank"}
        shown, most = truth(panel.truth, settings), float(settings["clip_norm"])
        assert len(shown["offsets"]) == settings["ranks"]
        for name, groups in (("right", [shown["offsets"]]), ("wrong", [[each] for each in shown["offsets"]])):
            x = nn.Parameter(torch.ones(3, dtype=torch.float64))
            optimizer = optimizer_of(settings, [x])
            for step in range(11):
                assert shown[name][step] == close(float((0.5 * curvature * x.detach() ** 2).sum()), rel=1e-4), settings
                x.grad = torch.stack([gradient(x, group, most) for group in groups]).mean(0)
                optimizer.step()


def test_bytes_of_a_layer_are_those_of_the_communication_budget() -> None:
    panel, truth = PANELS["layer"]
    theirs = reference("communication_budget")
    for settings in many(panel):
        shown = truth(panel.truth, settings)
        for t, sent in zip(shown["degrees"], shown["sent_mb"], strict=True):
            job = {
                "micro_batch": 1,
                "sequence": settings["tokens"],
                "hidden": settings["hidden"],
                "activation_bytes": 2,
            }
            job |= {"layers": 1, "pipeline": 1, "micro_batches": 1, "tensor": t}
            assert sent * 1e6 == close(theirs.tensor_parallel_bytes(job)), settings
        cluster = {"gpus_per_node": settings["node"], "inside_bytes_per_s": settings["inside_gb_per_s"] * 1e9}
        cluster["between_bits_per_s"] = settings["between_gb_per_s"] * 8e9
        for t, sent, ms in zip(shown["degrees"], shown["sent_mb"], shown["communication_ms"], strict=True):
            assert ms == close(theirs.transfer_s(sent * 1e6, range(t), cluster) * 1e3), settings


def test_pipelines_have_the_bubbles_and_peaks_of_the_formulas() -> None:
    panel, truth = PANELS["pipeline"]
    theirs = reference("bubble_and_memory")
    for drawn in many(panel):
        settings = {**drawn, "latency_ms": 0, "warm_up": 0}
        name = str(settings["schedule"]).lower()
        if name == "zb-h1":  # its formula holds for equal times and full pipelines
            settings |= {"input_ms": settings["forward_ms"], "weight_ms": settings["forward_ms"]}
            settings["micro_batches"] = max(settings["micro_batches"], settings["ranks"])
        v = int(settings["chunks"]) if name == "interleaved" else 1
        if v == 1 and name == "interleaved":
            name = "1f1b"
        shown = truth(panel.truth, settings)
        times = {f"{kind}_s": settings[f"{kind}_ms"] for kind in ("forward", "input", "weight")}
        p, m = settings["ranks"], shown["micro_batches"]
        assert shown["waits"] == [], settings
        assert shown["length"] - shown["work"] == close(theirs.bubble_s(name, p, times, v)), settings
        assert shown["bubble_over_ideal"] == close(theirs.bubble_over_ideal(name, p, m, times, v)), settings
        assert shown["bubble_over_total"] == close(theirs.bubble_over_total(name, p, m, times, v)), settings
        expected = [theirs.peak_in_flight(name, rank, p, m, v) / v for rank in range(p)]
        if name == "zb-h1":
            assert max(shown["peaks"]) <= max(expected), settings
        else:
            assert shown["peaks"] == close(expected), settings


def test_memory_and_traffic_are_those_of_zero() -> None:
    panel, truth = PANELS["memory"]
    theirs, budget = reference("sixteen_bytes"), reference("communication_budget")
    for settings in many(panel):
        shown, psi = truth(panel.truth, settings), settings["billions"] * 1e9
        shape = [settings[name] for name in ("layers", "sequence", "batch", "hidden", "heads", "recompute")]
        activations = theirs.activation_gb(*shape)
        job = {"parameters": psi, "data": settings["ranks"], "tensor": 1, "pipeline": 1, "micro_batches": 1}
        job |= {"parameter_bytes": 2, "gradient_bytes": 2}
        for stage, parts in enumerate(shown["stages"]):
            state = theirs.model_state_gb(psi, stage, settings["ranks"], settings["optimizer"])
            assert parts["total"] == close(state + activations), settings
            assert shown["sent"][stage] * 1e9 == close(budget.data_parallel_bytes({**job, "zero": stage})), settings


def test_best_splits_are_those_of_the_scaling_law() -> None:
    panel, truth = PANELS["scaling"]
    theirs = reference("spend_compute")
    for settings in many(panel):
        shown = truth(panel.truth, settings)
        plan = theirs.optimal(shown["law"], shown["compute"])
        assert (shown["best"], shown["tokens"]) == close((plan["parameters"], plan["tokens"])), settings
        assert shown["best_loss"] == close(theirs.loss(shown["law"], plan["parameters"], plan["tokens"])), settings
        assert shown["size_loss"] == close(theirs.loss(shown["law"], shown["size"], shown["size_tokens"])), settings
        ratios = [theirs.tokens_per_parameter(shown["law"], compute) for compute in shown["budgets"]]
        assert shown["ratios"][settings["law"]] == close(ratios), settings


def test_fits_by_sum_and_mean_are_those_of_the_reference() -> None:
    panel, truth = PANELS["scaling"]
    theirs, spend = reference("fit_in_log_space"), reference("spend_compute")
    made = load(ROOT / "reference/ch5_scaling_and_strategy/fit_in_log_space/harness.py")
    whole, names = theirs.objective, ("E", "A", "B", "alpha", "beta")
    found = {}
    for runs in (1, 2, 3):
        data = made.made_up(runs)
        for huber, n in (("sum of Huber's losses", 1), ("mean of Huber's losses", 240)):
            theirs.objective = lambda theta, runs, n=n: tuple(each / n for each in whole(theta, runs))
            found[huber, runs] = theirs.fit(data, made.grid())
    for settings in many(panel):
        shown, law = truth(panel.truth, settings), found[settings["huber"], settings["runs"]]
        assert [shown["fit"][name] for name in names] == close([law[name] for name in names], rel=2e-2), settings
        assert shown["fit"]["exponent"] == close(theirs.optimal_exponent(law), abs=2e-3), settings
        own = {name: shown["fit"][name] for name in names}
        assert shown["fit_ratio"] == close(spend.tokens_per_parameter(own, shown["compute"])), settings
        assert shown["fit"]["ratios"] == close([spend.tokens_per_parameter(own, each) for each in shown["budgets"]])
        means, sums = (shown["fits"][f"{word} of Huber's losses"]["exponent"] for word in ("mean", "sum"))
        assert means < sums - 0.04 < shown["true"]["exponent"], settings


def test_plans_on_the_map_take_and_need_what_the_cost_model_says() -> None:
    panel, truth = PANELS["strategy"]
    theirs = reference("choose_strategy")
    for settings in many(panel):
        shown = truth(panel.truth, settings)
        job, cluster = shown["job"], shown["cluster"]
        for cell in shown["cells"]:
            if cell["plan"] is None:
                continue
            assert cell["step_s"] == close(theirs.step_s(job, cluster, cell["plan"])), settings
            assert cell["memory_gb"] * 1e9 == close(theirs.memory_bytes(job, cell["plan"])), settings


def test_the_map_finds_the_plan_that_an_exhaustive_search_finds() -> None:
    panel, truth = PANELS["strategy"]
    theirs, shown = reference("choose_strategy"), truth(panel.truth, panel.asked)
    assert shown["best"]["plan"] == theirs.choose(shown["job"], shown["cluster"])
